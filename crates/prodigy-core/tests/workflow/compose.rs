//! Files made of other files.

use prodigy_core::workflow::{Body, MapInput, SecretSource};

use crate::support::{errors_of, load_files, outline, outline_env, workflow_of};

#[test]
fn a_file_lies_over_the_one_it_extends() {
    let workflow = workflow_of(&[
        (
            "main.yml",
            "extends: lib/base.yml\nname: mine\nenv: {B: 3, C: 4}\nmap: {max_parallel: 2}\nmax_failures: 9\n",
        ),
        (
            "lib/base.yml",
            "extends: deep/er.yml\nmode: mapreduce\nenv: {A: 1, B: 2}\nenv_files: [x.env]\n\
             secrets: {K: {file: k.txt}}\nerror_policy: {max_failures: 1, min_items: 2}\n",
        ),
        (
            "lib/deep/er.yml",
            "map: {input: items.json, agent_template: [{shell: a}], max_parallel: 8}\n",
        ),
    ]);
    assert_eq!(workflow.name.as_deref(), Some("mine"));
    assert_eq!(outline_env(&workflow.env), "A=1 B=3 C=4");
    assert_eq!(workflow.env_files, ["lib/x.env"]);
    assert_eq!(workflow.secrets[0].source, SecretSource::File("lib/k.txt".to_owned()));
    let Body::MapReduce(body) = workflow.body else { panic!("not MapReduce") };
    assert_eq!(body.map.max_parallel.get(), 2);
    assert_eq!(outline(&body.map.steps), "shell: a\n");
    assert_eq!(body.error_policy.max_failures.unwrap().get(), 9);
    assert_eq!(body.error_policy.min_items, 2);
}

#[test]
fn lists_and_choices_are_replaced_as_a_whole() {
    let workflow = workflow_of(&[
        (
            "main.yml",
            "extends: [one.yml, two.yml]\nsecrets: {K: {env: Y}}\nmap: {input: {glob: '*'}}\n",
        ),
        (
            "one.yml",
            "mode: mapreduce\nmap: {input: {file: a}, agent_template: [{shell: a}, {shell: b}]}\nsecrets: {K: {file: x}}\n",
        ),
        ("two.yml", "map: {agent_template: [{shell: c}], agent_timeout: 5}\n"),
    ]);
    assert_eq!(workflow.secrets[0].source, SecretSource::Env("Y".to_owned()));
    let Body::MapReduce(body) = workflow.body else { panic!("not MapReduce") };
    assert!(matches!(body.map.input, MapInput::Glob(_)));
    assert_eq!(outline(&body.map.steps), "shell: c\n");
}

#[test]
fn a_bare_list_can_be_extended() {
    let workflow = workflow_of(&[
        ("main.yml", "extends: base.yml\nname: mine\n"),
        ("base.yml", "- shell: a\n"),
    ]);
    let Body::Sequential { steps, .. } = &workflow.body else { panic!("not sequential") };
    assert_eq!(outline(steps), "shell: a\n");
    let workflow = workflow_of(&[
        ("main.yml", "extends: base.yml\ncommands: [{shell: b}]\n"),
        ("base.yml", "- shell: a\n"),
    ]);
    let Body::Sequential { steps, .. } = &workflow.body else { panic!("not sequential") };
    assert_eq!(outline(steps), "shell: b\n");
}

#[test]
fn imports_bring_settings() {
    let workflow = workflow_of(&[
        (
            "main.yml",
            "imports: [lib/a.yml, lib/b.yml]\nenv: {X: 1}\nmode: mapreduce\non_item_failure: custom:h\nmap: {input: a, agent_template: [{shell: a}]}\n",
        ),
        (
            "lib/a.yml",
            "name: a library\nimports: [c.yml]\nenv: {X: 2, Y: 2}\nparameters: {p: {default: 1}}\n",
        ),
        (
            "lib/b.yml",
            "imports: [c.yml]\nenv: {Y: 3}\nprofiles: {dev: {X: 9}}\nerror_policy: {handlers: {h: [{shell: tidy}]}}\n",
        ),
        ("lib/c.yml", "agents: {claude: {type: command, command: [fake]}}\nenv: {Z: 4}\n"),
    ]);
    assert_eq!(workflow.name, None);
    assert_eq!(outline_env(&workflow.env), "Z=4 X=1 Y=3");
    assert_eq!(workflow.parameters.len(), 1);
    assert_eq!(workflow.agents.len(), 1);
    assert_eq!(workflow.profiles.len(), 1);
}

#[test]
fn each_file_is_read_once() {
    let mut read = Vec::new();
    let files = [
        ("flows/main.yml", "imports: [a.yml, ./b.yml]\nsteps: [{shell: a}]\n"),
        ("flows/a.yml", "imports: [../lib/c.yml]\n"),
        ("flows/b.yml", "imports: ../lib/c.yml\n"),
        ("lib/c.yml", "env: {A: 1}\n"),
    ];
    let loaded = prodigy_core::workflow::load("flows/main.yml", &mut |path| {
        read.push(path.to_owned());
        let file = files.iter().find(|(name, _)| *name == path);
        file.map(|(_, text)| (*text).to_owned()).ok_or_else(|| "no such file".to_owned())
    });
    let sources = loaded.unwrap().sources;
    assert_eq!(read, ["flows/main.yml", "flows/a.yml", "lib/c.yml", "flows/b.yml"]);
    assert_eq!(
        sources.iter().map(|source| &source.path).collect::<Vec<_>>(),
        read.iter().collect::<Vec<_>>()
    );
}

#[test]
fn only_settings_can_be_imported() {
    insta::assert_snapshot!(errors_of(&[
        ("main.yml", "imports: [a.yml, b.yml]\nsteps: [{shell: a}]\n"),
        ("a.yml", "env: {A: 1}\nsteps: [{shell: b}]\nerror_policy: {max_failures: 1}\n"),
        ("b.yml", "- shell: c\n"),
    ]), @"
    main.yml:1:18: error: `b.yml` has steps, so it cannot be imported
        use `extends`
    a.yml:2:1: error: `steps` cannot stand in an imported file
        an imported file has `agents`, `env`, `parameters`, `profiles`, `secrets` and `error_policy.handlers`; use `extends` for more
    a.yml:3:1: error: `error_policy` cannot stand in an imported file
        an imported file has `agents`, `env`, `parameters`, `profiles`, `secrets` and `error_policy.handlers`; use `extends` for more
    ");
}

#[test]
fn a_template_is_filled_in() {
    let workflow = workflow_of(&[
        ("main.yml", "template: {source: lib/t.yml, with: {who: me, count: 3}}\nname: mine\n"),
        (
            "lib/t.yml",
            "name: theirs\nparameters:\n  who: {required: true}\n  count: {type: number, default: 1}\n  other: {default: x}\nsteps: [{claude: \"${params.who} ${params.count}\"}]\n",
        ),
    ]);
    assert_eq!(workflow.name.as_deref(), Some("mine"));
    let values: Vec<_> = workflow
        .parameters
        .iter()
        .map(|parameter| (parameter.name.as_str(), parameter.default.clone(), parameter.required))
        .collect();
    insta::assert_debug_snapshot!(values, @r#"
    [
        (
            "who",
            Some(
                String("me"),
            ),
            false,
        ),
        (
            "count",
            Some(
                Number(3),
            ),
            false,
        ),
        (
            "other",
            Some(
                String("x"),
            ),
            false,
        ),
    ]
    "#);
}

#[test]
fn a_template_gets_what_it_needs_and_nothing_else() {
    let template = "parameters:\n  who: {required: true}\n  count: {type: number, default: 1}\nsteps: [{shell: a}]\n";
    insta::assert_snapshot!(errors_of(&[
        ("main.yml", "template:\n  source: t.yml\n  with:\n    coutn: 3\n"),
        ("t.yml", template),
    ]), @"
    main.yml:2:11: error: `t.yml` needs the parameter `who`
    main.yml:4:5: error: `t.yml` has no parameter `coutn`
        did you mean `count`?
    ");
    insta::assert_snapshot!(errors_of(&[
        ("main.yml", "template:\n  source: t.yml\n  with:\n    who: ${params.x}\n    count: many\n"),
        ("t.yml", template),
    ]), @"main.yml:4:10: error: a value of `with` is taken as it is and cannot hold `${…}`");
    insta::assert_snapshot!(errors_of(&[
        ("main.yml", "template:\n  source: t.yml\n  with:\n    who: me\n    count: many\n"),
        ("t.yml", template),
    ]), @"main.yml:5:12: error: `count` is of the type `number`, and this is text");
    insta::assert_snapshot!(errors_of(&[
        ("main.yml", "template: {from: t.yml}\nextends: t.yml\n"),
        ("t.yml", template),
    ]), @"
    main.yml:1:1: error: a file has `extends` or `template`, not both
    main.yml:1:11: error: `source` is missing: the file to fill in
    main.yml:1:12: error: unknown key `from`
    ");
}

#[test]
fn a_circle_is_an_error_that_names_it() {
    insta::assert_snapshot!(errors_of(&[
        ("main.yml", "extends: lib/a.yml\n"),
        ("lib/a.yml", "imports: [b.yml]\n"),
        ("lib/b.yml", "extends: ../lib/a.yml\n"),
    ]), @"lib/b.yml:1:10: error: a file includes itself: `lib/a.yml` → `lib/b.yml` → `lib/a.yml`");
    insta::assert_snapshot!(errors_of(&[("main.yml", "extends: ./main.yml\n")]), @"main.yml:1:10: error: a file includes itself: `main.yml` → `main.yml`");
}

#[test]
fn a_long_chain_is_an_error() {
    let chain = |length: usize| {
        let files: Vec<(String, String)> = (0..length)
            .map(|number| {
                let name =
                    if number == 0 { "main.yml".to_owned() } else { format!("{number}.yml") };
                let next = number + 1;
                let text = if next == length {
                    "- shell: a\n".to_owned()
                } else {
                    format!("extends: {next}.yml\n")
                };
                (name, text)
            })
            .collect();
        let files: Vec<_> =
            files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        load_files(&files).is_ok()
    };
    assert!(chain(16));
    assert!(!chain(17));
}

#[test]
fn errors_point_into_the_file_they_are_in() {
    insta::assert_snapshot!(errors_of(&[
        ("main.yml", "extends: base.yml\nsteps:\n  - claude: ${oops}\n"),
        ("base.yml", "name: x\nenv:\n  A: ${item}\n"),
    ]), @"
    main.yml:3:13: error: unknown variable `oops`
        write `$${` for a literal `${`; the variables here are `claude`, `env`, `error`, `index`, `item`, `last`, `params`, `shell`, `steps`, `total`, `validation`, `workflow`
    base.yml:3:6: error: unknown variable `item`
        write `$${` for a literal `${`; the variables here are `env`, `params`, `workflow`
    ");
}

#[test]
fn a_file_that_is_missing_or_broken_is_an_error() {
    insta::assert_snapshot!(errors_of(&[]), @"main.yml:1:1: error: cannot read `main.yml`: no such file");
    insta::assert_snapshot!(errors_of(&[("main.yml", "extends: [gone.yml, lib/also.yml]\n")]), @"
    main.yml:1:11: error: cannot read `gone.yml`: no such file
    main.yml:1:21: error: cannot read `lib/also.yml`: no such file
    ");
    insta::assert_snapshot!(errors_of(&[("main.yml", "extends: a.yml\n"), ("a.yml", "x: [\n")]), @"a.yml:2:1: error: not valid YAML: while parsing a node, did not find expected node content");
    insta::assert_snapshot!(errors_of(&[("main.yml", "extends: {a: b}\nimports: [7]\n")]), @"
    main.yml:1:10: error: expected the name of a file, found a mapping
    main.yml:2:11: error: expected the name of a file, found a number
    ");
}
