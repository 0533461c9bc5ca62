//! How far what a step does reaches: what may be declared, and what is warned of.

use prodigy_core::workflow::{Body, Effects};

use crate::support::{errors, warnings, workflow};

#[test]
fn a_step_says_how_far_it_reaches() {
    let workflow = workflow(
        "
- shell: a
- {shell: b, effects: none}
- {shell: c, effects: local}
- {claude: d, effects: external, idempotent: true}
- {shell: e, shell_program: bash, effects: external, check: 'f <<< x', compensate: g}
",
    );
    let Body::Sequential { steps, .. } = &workflow.body else { panic!("not sequential") };
    let shown: Vec<_> = steps
        .iter()
        .map(|step| match &step.effects {
            Effects::None => "none".to_owned(),
            Effects::Local => "local".to_owned(),
            Effects::External(external) => {
                let script = |script: &Option<prodigy_core::template::Script>| {
                    script.as_ref().map(|script| script.source().to_owned())
                };
                let (check, undo) = (script(&external.check), script(&external.compensate));
                format!("external {} {check:?} {undo:?}", external.idempotent)
            }
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    local
    none
    local
    external true None None
    external false Some("f <<< x") Some("g")
    "#);
}

#[test]
fn what_goes_with_a_change_outside_needs_one() {
    insta::assert_snapshot!(errors("
- {shell: a, check: b}
- {shell: a, effects: local, check: b, idempotent: true}
- {shell: a, effects: none, compensate: b}
- {shell: a, effects: external, compensate: b}
- {write_file: {path: p, content: c}, effects: external}
- {foreach: {input: [1], do: [{shell: a, effects: external}]}, effects: external}
- {shell: a, effects: everywhere}
- {shell: a, effects: external, check: 'b ${nothing|raw}'}
"), @"
    main.yml:2:14: error: `check` has no effect without `effects` in a step
    main.yml:3:30: error: `check` only goes with `effects: external`
        add `effects: external` if the step changes something outside
    main.yml:3:40: error: `idempotent` only goes with `effects: external`
        add `effects: external` if the step changes something outside
    main.yml:4:29: error: `compensate` only goes with `effects: external`
        add `effects: external` if the step changes something outside
    main.yml:5:33: error: `compensate` needs a `check`: what was undone is looked at before it counts
        add a `check` that exits with 1 once the effect is gone
    main.yml:6:39: error: `write_file` only writes inside the worktree
        remove `effects`
    main.yml:7:64: error: a loop changes nothing itself
        put `effects: external` on the steps in `do` that change something outside
    main.yml:8:23: error: `effects` must be `none`, `local` or `external`, found `everywhere`
    ");
}

#[test]
fn a_check_can_only_use_what_is_known_after_the_attempt() {
    insta::assert_snapshot!(errors("
mode: mapreduce
setup: [{shell: s, capture: base}]
map:
  input: {items: [1]}
  worktree: {setup: [{shell: w, effects: external}]}
  agent_template:
    - {shell: a, id: first, capture: title}
    - shell: b ${title}
      effects: external
      check: c ${item.name} ${item_id} ${params.x} ${setup.base} ${title} ${steps.first.output} ${agent_id}
    - foreach:
        input: [1]
        do: [{shell: d, effects: external, check: 'e ${item} ${index}'}]
error_policy:
  handlers: {h: [{shell: f, effects: external, check: 'g ${error.message}'}]}
reduce: [{shell: h, effects: external, check: 'i ${base} ${map.total}'}]
"), @"
    main.yml:6:33: error: a worktree is prepared once for many items, so what is done for it has no name
        move the step to `setup`, or to the steps of the items
    main.yml:11:66: error: `title` is not known any more when this runs after the attempt
        use the item's data, `params`, `env` and `setup`, and `$PRODIGY_IDEMPOTENCY_KEY`
    main.yml:11:75: error: `steps` is not known any more when this runs after the attempt
        use the item's data, `params`, `env` and `setup`, and `$PRODIGY_IDEMPOTENCY_KEY`
    main.yml:11:97: error: `agent_id` is not known any more when this runs after the attempt
        use the item's data, `params`, `env` and `setup`, and `$PRODIGY_IDEMPOTENCY_KEY`
    main.yml:14:54: error: `item` is not known any more when this runs after the attempt
        use the item's data, `params`, `env` and `setup`, and `$PRODIGY_IDEMPOTENCY_KEY`
    main.yml:14:62: error: `index` is not known any more when this runs after the attempt
        use the item's data, `params`, `env` and `setup`, and `$PRODIGY_IDEMPOTENCY_KEY`
    main.yml:16:58: error: `error` is not known any more when this runs after the attempt
        use the item's data, `params`, `env` and `setup`, and `$PRODIGY_IDEMPOTENCY_KEY`
    ");
}

#[test]
fn steps_are_found_by_their_paths() {
    let text = "
mode: mapreduce
map:
  input: {items: [1]}
  agent_template:
    - shell: one
      on_failure: {commands: [{shell: mend}], max_attempts: 2}
      on_success: {shell: cheer}
      on_exit_code: {3: {shell: three}}
      validate: {shell: judge, on_incomplete: {shell: finish}}
    - foreach: {input: [1], do: [{shell: each, effects: external}, {foreach: {input: [1], do: [{shell: deep}]}}]}
    - {shell: last, effects: external}
error_policy:
  on_item_failure: custom:a.b
  handlers: {a.b: [{shell: handle}]}
";
    let workflow = workflow(text);
    let found = |path: &str| {
        let identity = workflow.identity_at(path, true);
        let step = identity.and_then(|(identity, _)| workflow.step_of(&identity, true));
        let step = step.map(|(_, step)| step);
        format!("{path}: {}", step.map(prodigy_core::workflow::step_label).unwrap_or_default())
    };
    let paths = [
        "1",
        "1.on_failure.1",
        "1.on_success.1",
        "1.on_exit_code.3.1",
        "1.validate.1",
        "1.on_incomplete.2.1",
        "2.foreach.7.1",
        "2.foreach.7.2.foreach.1.1",
        "handler.a.b.1",
        "0",
        "4",
        "1.foreach.1.1",
        "1.on_failure.2",
        "setup.1",
    ];
    insta::assert_snapshot!(paths.map(found).join("\n"), @"
    1: shell: one
    1.on_failure.1: shell: mend
    1.on_success.1: shell: cheer
    1.on_exit_code.3.1: shell: three
    1.validate.1: shell: judge
    1.on_incomplete.2.1: shell: finish
    2.foreach.7.1: shell: each
    2.foreach.7.2.foreach.1.1: shell: deep
    handler.a.b.1: shell: handle
    0: 
    4: 
    1.foreach.1.1: 
    1.on_failure.2: 
    setup.1:
    ");
    let last = workflow.last_effect();
    assert!(last.is_some_and(|last| last.starts_with('~')));
}

#[test]
fn commands_that_reach_outside_are_warned_of() {
    insta::assert_snapshot!(warnings(r"
- shell: |
    make test && git -C sub push --force origin main
    sudo -u me gh -R a/b pr create --fill
- shell: for pr in 1 2; do gh pr merge $pr; done
- shell: cargo +nightly publish; npm publish; terraform apply -auto-approve
- shell: kubectl --namespace prod apply -f x.yml | tee log
- shell: find . -name '*.yml' -exec kubectl delete -f {} \;
- shell: |
    curl -sS -X POST $URL
    curl --request=DELETE $URL
    curl -XPUT $URL
    curl -d @body $URL
    curl --data-binary @body $URL
- shell: true
  on_failure: git push origin HEAD
- shell: echo `git push`
"), @"
    main.yml:3:18: warning: `git push` changes something outside, and the step does not say so
        declare `effects: external`, best with a `check`; `effects: local` if it is harmless
    main.yml:4:16: warning: `gh pr create` changes something outside, and the step does not say so
        declare `effects: external`, best with a `check`; `effects: local` if it is harmless
    main.yml:5:28: warning: `gh pr merge` changes something outside, and the step does not say so
        declare `effects: external`, best with a `check`; `effects: local` if it is harmless
    main.yml:6:10: warning: `cargo publish` changes something outside, and the step does not say so
        declare `effects: external`, best with a `check`; `effects: local` if it is harmless
    main.yml:6:34: warning: `npm publish` changes something outside, and the step does not say so
        declare `effects: external`, best with a `check`; `effects: local` if it is harmless
    main.yml:6:47: warning: `terraform apply` changes something outside, and the step does not say so
        declare `effects: external`, best with a `check`; `effects: local` if it is harmless
    main.yml:7:10: warning: `kubectl apply` changes something outside, and the step does not say so
        declare `effects: external`, best with a `check`; `effects: local` if it is harmless
    main.yml:8:37: warning: `kubectl delete` changes something outside, and the step does not say so
        declare `effects: external`, best with a `check`; `effects: local` if it is harmless
    main.yml:10:5: warning: `curl -X POST` changes something outside, and the step does not say so
        declare `effects: external`, best with a `check`; `effects: local` if it is harmless
    main.yml:11:5: warning: `curl -X DELETE` changes something outside, and the step does not say so
        declare `effects: external`, best with a `check`; `effects: local` if it is harmless
    main.yml:12:5: warning: `curl -X PUT` changes something outside, and the step does not say so
        declare `effects: external`, best with a `check`; `effects: local` if it is harmless
    main.yml:13:5: warning: `curl -d` changes something outside, and the step does not say so
        declare `effects: external`, best with a `check`; `effects: local` if it is harmless
    main.yml:14:5: warning: `curl --data` changes something outside, and the step does not say so
        declare `effects: external`, best with a `check`; `effects: local` if it is harmless
    main.yml:16:15: warning: `git push` changes something outside, and the step does not say so
        declare `effects: external`, best with a `check`; `effects: local` if it is harmless
    ");
}

#[test]
fn what_only_looks_like_it_is_not_warned_of() {
    insta::assert_snapshot!(warnings(r#"
- shell: |
    # git push
    echo "git push" 'gh pr create' and git push
    git commit -m 'git push'
    git log --grep push
    git fetch; gh pr list; gh pr view 3; kubectl get pods; npm install; cargo build --release
    cargo publish --dry-run; npm publish --dry-run; terraform plan
    curl -fsSL $URL; curl -X GET -d x $URL; curl -G -d q=1 $URL; curl -I $URL
    cat <<EOF
    git push
    EOF
    run-git push; ./push git
- {shell: git push, effects: external}
- {shell: git push, effects: local}
- {shell: git push, effects: none}
"#), @"");
}

#[test]
fn step_is_known_by_its_id_or_by_what_it_does() {
    let names = |text: &str| {
        let workflow = workflow(text);
        let identities = prodigy_core::job::StepIdentities::of(&workflow);
        identities.of_phase(prodigy_core::event::PhaseName::Steps).to_vec()
    };
    let plain = names("- {shell: a, effects: external}\n");
    let name = plain.first().unwrap();
    assert!(name.starts_with('~'), "{name}");
    let same = [
        "check: b",
        "idempotent: true",
        "when: params.x",
        "timeout: 3s",
        "name: b",
        "on_failure: {shell: b}",
        "retry: {attempts: 2}",
    ];
    for more in same {
        assert_eq!(names(&format!("- {{shell: a, effects: external, {more}}}\n")), plain, "{more}");
    }
    for more in ["env: {A: b}", "working_dir: b", "shell_program: bash"] {
        assert_ne!(names(&format!("- {{shell: a, effects: external, {more}}}\n")), plain, "{more}");
    }
    let equal = names(
        "- {shell: a, effects: external}\n- shell: a\n- {id: one, shell: a, effects: external}\n- {shell: a, effects: external}\n",
    );
    let [first, local, one, last] = equal.as_slice() else { panic!("{equal:?}") };
    assert_eq!((first, one.as_str(), last), (name, "one", &format!("{name}~3")));
    assert_ne!(local, name);
}

#[test]
fn effects_are_found_in_another_workflow() {
    let text = |first: &str| {
        format!(
            "
mode: mapreduce
map:
  input: {{items: [1]}}
  agent_template:
    {first}
    - foreach: {{input: [x, y], do: [{{shell: each, effects: external}}]}}
    - {{shell: last, effects: external, on_success: {{shell: cheer, effects: external}}}}
"
        )
    };
    let (before, after) = (workflow(&text("")), workflow(&text("- shell: new")));
    for (path, now) in
        [("1.foreach.2.1", "2.foreach.2.1"), ("2", "3"), ("2.on_success.1", "3.on_success.1")]
    {
        let (identity, is_exact) = before.identity_at(path, true).unwrap();
        assert!(is_exact, "{path}");
        assert_eq!(after.identity_at(now, true), Some((identity.clone(), true)), "{path}");
        let found = after.step_of(&identity, true).map(|(identity, _)| identity);
        assert_eq!(found, Some(identity), "{path}");
    }
    let named = workflow(&text("").replace("{shell: last", "{id: end, shell: last"));
    let (identity, _) = before.identity_at("2.on_success.1", true).unwrap();
    let (now, _) = named.step_of(&identity, true).unwrap();
    assert!(now.starts_with("end.on_success.~"), "{now}");
    assert_eq!(named.step_of("~0123456789ab", true), None);
}
