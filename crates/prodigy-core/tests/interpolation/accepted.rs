//! Ordinary commands that people write, and what they do.

use prodigy_core::{template::Script, vars::Vars};
use serde_json::json;

use super::probe::{Folder, SHELLS, Shell, accepted, names, vars};

fn ordinary_vars() -> Vars {
    let mut vars = Vars::default();
    vars.set(
        "item",
        json!({
            "path": "my file.txt", "name": "it's", "n": 3, "minus": -4, "files": ["a b", "c"], "flags": "-x  -y\n-z",
            "dash": "-rf", "branch": "fix/a", "meta": {"k": "v w"}, "empty": "", "null": null, "upper": " Ab ",
            "pattern": "*.rs", "greeting": "$(echo hi) `x`",
        }),
    );
    vars.set("map", json!({"successful": 5, "failed": 0, "results": [{"id": 1}]}));
    vars.set("n", 7);
    vars.set("files", json!([]));
    vars
}

/// Templates that both shells know, and what they print.
const ORDINARY: &[(&str, &str)] = &[
    ("echo ${item.name}", "it's\n"),
    ("echo 'Processed ${map.successful} items'", "Processed 5 items\n"),
    ("echo \"Done: ${map.successful}/${map.failed}\"", "Done: 5/0\n"),
    ("printf '%s' '${item.meta}' | wc -c | tr -d ' '", "11\n"),
    ("echo ${item.meta}", "{\"k\":\"v w\"}\n"),
    ("echo ${map.results[0].id}", "1\n"),
    ("printf '%s\\n' ${item.path} > ${item.path} && cat ${item.path}", "my file.txt\n"),
    ("test -f ${item.path} && echo yes", "yes\n"),
    ("[ -n ${item.name} ] && echo set || echo unset", "set\n"),
    ("[ ${map.failed} -eq 0 ] && echo 'all good'", "all good\n"),
    ("if [ \"${item.empty}\" = \"\" ]; then echo empty; fi", "empty\n"),
    ("for f in ${item.files|words}; do printf '<%s>' \"$f\"; done", "<a b><c>"),
    ("for f in ${files|words}; do echo never; done; echo end", "end\n"),
    ("printf '<%s>' ${item.flags|words}", "<-x><-y><-z>"),
    ("echo \"$(printf '<%s>' ${item.files|words})\"", "<a b><c>\n"),
    ("x=$(echo ${item.flags|words}); echo \"$x\"", "-x -y -z\n"),
    ("printf '<%s>' ${item.flags}", "<-x  -y\n-z>"),
    ("echo $((${item.n} + 1)) $((10-${item.minus})) $(( (${map.successful} * 2) ))", "4 14 10\n"),
    ("printf '%s ' ${item.dash|path} ${item.path|path}", "./-rf my file.txt "),
    ("printf '%s\\n' ${item.files|json} ${item.name|json}", "[\"a b\",\"c\"]\n\"it's\"\n"),
    ("echo ${item.upper|trim|upper} ${item.upper|lower} ${item.files|length}", "AB  ab  2\n"),
    ("printf '%s\\n' ${item.files|lines}", "a b\nc\n"),
    (
        "echo ${item.gone:-none} ${item.null:-nil} ${item.empty:-'e f'} \"${item.gone:-a b}\"",
        "none nil e f a b\n",
    ),
    ("cat ${item.greeting|file}", "$(echo hi) `x`"),
    ("cat <<EOF\n- ${item.name}: \"${item.greeting}\"\nEOF", "- it's: \"$(echo hi) `x`\"\n"),
    ("cat <<'EOF'\n$HOME ${unknown} $${item.name}\nEOF", "$HOME ${unknown} ${item.name}\n"),
    ("f=a.rs; echo ${f%.rs} ${#f} \"${f:-x}\" ${unset_f:-y} $f", "a 4 a.rs y a.rs\n"),
    ("echo \"\\${item.name}\" $${unset_y:-z}", "${item.name} z\n"),
    ("set -- a b; echo $1 $# $(echo x) `echo y`", "a 2 x y\n"),
    ("x=${item.name}; echo \"${x%s}\"", "it'\n"),
    ("NAME=${item.name} sh -c 'echo \"$NAME\"'", "it's\n"),
    ("sh -c 'echo \"$1\"' sh ${item.name}", "it's\n"),
    ("case ${item.branch} in fix/*) echo fix;; *) echo other;; esac", "fix\n"),
    ("case 'x.rs' in ${item.pattern}) echo pattern;; *) echo literal;; esac", "literal\n"),
    ("grep -c -- ${item.name} ${item.path} || echo none", "0\nnone\n"),
    ("sed 's/my/your/' ${item.path}", "your file.txt\n"),
    ("sed -n -e 1p -- ${item.path}", "my file.txt\n"),
    ("awk '{ print $2 }' ${item.path}", "file.txt\n"),
    ("V=${item.name} awk 'BEGIN { print ENVIRON[\"V\"] }'", "it's\n"),
    ("find . -name ${item.path} -exec basename {} \\;", "my file.txt\n"),
    ("find . -name 'my*' -exec sh -c 'echo \"$1\"' sh ${item.name} \\;", "it's\n"),
    ("echo ${item.path} | while read -r line; do echo \"[$line]\"; done", "[my file.txt]\n"),
    ("printf 'a\\nb\\n' | xargs -n 1 echo ${item.name}", "it's a\nit's b\n"),
    ("timeout 60 env X=${item.name} sh -c 'echo $X'", "it's\n"),
    ("timeout ${item.n} echo ok", "ok\n"),
    ("echo ${item.name} | grep -c it; echo python | grep -c python", "1\n1\n"),
    (
        "if true; then echo ${item.n}; sh <<'S'\necho inner\nS\nfi; echo ${item.name}",
        "3\ninner\nit's\n",
    ),
    ("echo 'echo $1' | sh -s -- ${item.name}; cat <<EOF\n${item.n}\nEOF", "it's\n3\n"),
    ("time -p true 2>/dev/null; ! false && echo ${item.n}", "3\n"),
    ("command -v ${item.name} || echo missing", "missing\n"),
    ("greet() { local who=${item.name}; echo \"hi $who\"; }; greet", "hi it's\n"),
    ("{ echo ${item.name}; } 2>&1 | cat; (cd . && echo ${item.n})", "it's\n3\n"),
    ("# comment with ${item.gone} and ' quote\necho ok # ${item.nope}", "ok\n"),
    ("echo a#b ${item.n}#c '#' ${item.n}", "a#b 3#c # 3\n"),
    (
        "cat >out.txt <<-EOF && cat out.txt\n\t${item.name}\n\tEOF\necho after ${item.n}",
        "it's\nafter 3\n",
    ),
    ("git --version >/dev/null; git check-ref-format --branch ${item.branch}", "fix/a\n"),
    ("echo ${item.name} >&2; echo ${item.n} 2>/dev/null", "3\n"),
    (
        "python3 -c 'import sys; print(sys.argv[1])' ${item.name} 2>/dev/null || echo \"it's\"",
        "it's\n",
    ),
];

/// Templates for bash alone.
const BASH: &[(&str, &str)] = &[
    ("[[ ${item.name} == it* ]] && echo match", "match\n"),
    ("[[ x.rs == ${item.pattern} ]] || echo literal", "literal\n"),
    ("[[ ${item.n} -lt 5 ]] && echo less", "less\n"),
    ("a=(${item.files|words}); echo ${#a[@]} \"${a[0]}\"", "2 a b\n"),
    ("(( ${item.n} > 2 )) && echo more", "more\n"),
    ("cat <<<${item.name}", "it's\n"),
    ("diff <(echo ${item.name}) <(echo \"it's\") && echo same", "same\n"),
    ("set -euo pipefail; bash -euo pipefail -c 'echo \"$1\"' _ ${item.name}", "it's\n"),
];

fn run(folder: &Folder, shell: Shell, template: &str) -> String {
    let bound = accepted(template, shell.dialect()).bind(&ordinary_vars()).unwrap();
    String::from_utf8(folder.run(shell, &bound, "")).unwrap()
}

#[test]
fn ordinary_commands_work_as_documented() {
    let folder = Folder::new("ordinary");
    assert!(ORDINARY.len() >= 28);
    for shell in SHELLS {
        for (template, expected) in ORDINARY {
            assert_eq!(run(&folder, shell, template), *expected, "{shell:?}: {template}");
        }
    }
    for (template, expected) in BASH {
        assert_eq!(run(&folder, Shell::Bash, template), *expected, "{template}");
    }
}

#[test]
fn a_script_that_uses_no_values_is_left_as_it_is() {
    for source in [
        "eval \"$(ssh-agent)\"; trap 'rm -f x' EXIT; sh -c \"echo $HOME\"; `date`; ${EDITOR:-vi} x",
        "awk -v x=1 '{print ${x}}' | sed \"s/$a/$b/\" | sh",
        "if true; then echo ${x/a/b} ${x^^} ${a[1]} ${!x} ${#x} ${@:2} $(( x[1] )); fi",
        "case $x in a|b) echo;; (c) echo;; esac; for i in 1 2; do :; done; f() { :; }",
        "echo '${a.b}' \"\\${c.d}\" # ${e.f",
        "unterminated 'quote ${HOME}",
        "",
    ] {
        for shell in SHELLS {
            let bound = accepted(source, shell.dialect()).bind(&vars("")).unwrap();
            assert_eq!((bound.text.as_str(), bound.env.len()), (source, 0));
        }
    }
}

#[test]
fn each_value_gets_one_variable_however_often_it_is_used() {
    let source =
        "a ${item.v} \"${item.v}\" '${item.v}' ${n} ${item.v|json} $((${n})) ${files|words} $${x}";
    let bound = accepted(source, Shell::Bash.dialect()).bind(&vars("x")).unwrap();
    insta::assert_snapshot!(bound.text, @r#"a "${PRODIGY_P1}" "${PRODIGY_P1}" ''"${PRODIGY_P1}"'' "${PRODIGY_P2}" "${PRODIGY_P3}" $(( (${PRODIGY_P2}))) "${PRODIGY_P4_1}" "${PRODIGY_P4_2}" "${PRODIGY_P4_3}" ${x}"#);
    insta::assert_debug_snapshot!(bound.env, @r#"
    [
        (
            "PRODIGY_P1",
            "x",
        ),
        (
            "PRODIGY_P2",
            "7",
        ),
        (
            "PRODIGY_P3",
            "\"x\"",
        ),
        (
            "PRODIGY_P4_1",
            "a b",
        ),
        (
            "PRODIGY_P4_2",
            "*",
        ),
        (
            "PRODIGY_P4_3",
            "-rf",
        ),
    ]
    "#);
}

#[test]
fn raw_needs_leave_and_is_listed() {
    let source = "${item.v|raw} ${n} `${item.v|raw}`";
    let script = Script::parse(source, &names(), Shell::Dash.dialect(), true).unwrap();
    let raw: Vec<String> = script.raw_references().map(|found| found.path().to_string()).collect();
    assert_eq!(raw, ["item.v"]);
    let all: Vec<&str> = script.references().map(|found| &source[found.range()]).collect();
    assert_eq!(all, ["${item.v|raw}", "${n}"]);
    assert_eq!(
        script.bind(&vars("echo hi;")).unwrap().text,
        "echo hi; \"${PRODIGY_P2}\" `echo hi;`"
    );
    assert_eq!(script.source(), source);
}

#[test]
fn some_places_look_at_the_value() {
    let check = |template: &str, value: &str| {
        let bound = accepted(template, Shell::Bash.dialect()).bind(&vars(value));
        bound.map_or_else(|error| error.message, |bound| bound.text)
    };
    let table = [
        ("echo $((${item.v} + 1))", "a[$(touch canary)]"),
        ("echo $((${item.v} + 1))", "010"),
        ("echo $((${item.v} + 1))", "99999999999999999999"),
        ("echo $((${item.v} + 1))", "-12"),
        ("[[ ${item.v} -eq 1 ]]", "a[$(touch canary)]"),
        ("[[ 1 -lt \"${item.v}\" ]]", ""),
        ("[[ ${item.v} == 1 ]]", "a[$(touch canary)]"),
        ("sed 's/a/b/' ${item.v}", "-e1e touch canary"),
        ("sed 's/a/b/' -- ${item.v}", "-e1e touch canary"),
        ("tar xf ${item.v}", "--to-command=x"),
        ("git checkout ${item.v}", "--upload-pack=x"),
        ("git commit -m ${item.v}", "-rf"),
        ("git add -- ${item.v}", "-rf"),
        ("ssh ${item.v} uptime", "-oProxyCommand=touch"),
        ("ssh ${item.v} uptime", "me@host.example"),
        ("make ${item.v}", "A=$(shell touch canary)"),
        ("make ${item.v}", "build/all"),
        ("find . -exec grep ${item.v} {} +", "{}"),
        ("find . -exec grep ${item.v} {} +", ";"),
        ("find ${item.v} -type f", "-delete"),
        ("timeout ${item.v} sleep 1", "--help"),
        ("rm ${item.v}", "-rf"),
        ("rm ${item.v|path}", "-rf"),
        ("rm ${item.v|path}", "../x"),
        ("echo ${item.w}", "x"),
    ];
    let lines =
        table.map(|(template, value)| format!("{template} | {value} | {}", check(template, value)));
    insta::assert_snapshot!(lines.join("\n"), @r#"
    echo $((${item.v} + 1)) | a[$(touch canary)] | the value of `${item.v}` is not a whole number, and only those can stand in arithmetic
    echo $((${item.v} + 1)) | 010 | the value of `${item.v}` is not a whole number, and only those can stand in arithmetic
    echo $((${item.v} + 1)) | 99999999999999999999 | the value of `${item.v}` is not a whole number, and only those can stand in arithmetic
    echo $((${item.v} + 1)) | -12 | echo $(( (${PRODIGY_P1}) + 1))
    [[ ${item.v} -eq 1 ]] | a[$(touch canary)] | the value of `${item.v}` is not a whole number, and only those can stand in arithmetic
    [[ 1 -lt "${item.v}" ]] |  | the value of `${item.v}` is not a whole number, and only those can stand in arithmetic
    [[ ${item.v} == 1 ]] | a[$(touch canary)] | [[ "${PRODIGY_P1}" == 1 ]]
    sed 's/a/b/' ${item.v} | -e1e touch canary | the value of `${item.v}` starts with `-`, and this program has options that run commands; put `--` before it or use the filter `path`
    sed 's/a/b/' -- ${item.v} | -e1e touch canary | sed 's/a/b/' -- "${PRODIGY_P1}"
    tar xf ${item.v} | --to-command=x | the value of `${item.v}` starts with `-`, and this program has options that run commands; put `--` before it or use the filter `path`
    git checkout ${item.v} | --upload-pack=x | the value of `${item.v}` starts with `-`, and this program has options that run commands; put `--` before it or use the filter `path`
    git commit -m ${item.v} | -rf | git commit -m "${PRODIGY_P1}"
    git add -- ${item.v} | -rf | git add -- "${PRODIGY_P1}"
    ssh ${item.v} uptime | -oProxyCommand=touch | the value of `${item.v}` must be made of letters, digits and `._/@:+-` here, and not start with `-`: the program gives other characters a meaning
    ssh ${item.v} uptime | me@host.example | ssh "${PRODIGY_P1}" uptime
    make ${item.v} | A=$(shell touch canary) | the value of `${item.v}` must be made of letters, digits and `._/@:+-` here, and not start with `-`: the program gives other characters a meaning
    make ${item.v} | build/all | make "${PRODIGY_P1}"
    find . -exec grep ${item.v} {} + | {} | the value of `${item.v}` is `;` or `+`, or contains `{}`, which `find` gives a meaning; use the filter `file`
    find . -exec grep ${item.v} {} + | ; | the value of `${item.v}` is `;` or `+`, or contains `{}`, which `find` gives a meaning; use the filter `file`
    find ${item.v} -type f | -delete | the value of `${item.v}` starts with `-`, and this program has options that run commands; put `--` before it or use the filter `path`
    timeout ${item.v} sleep 1 | --help | the value of `${item.v}` must be made of letters, digits and `._/@:+-` here, and not start with `-`: the program gives other characters a meaning
    rm ${item.v} | -rf | rm "${PRODIGY_P1}"
    rm ${item.v|path} | -rf | rm "${PRODIGY_P1}"
    rm ${item.v|path} | ../x | the value of `${item.v}` has a `..` in it; a path must stay inside
    echo ${item.w} | x | `${item.w}` has no value: `item` has no field `w`; it has `v`
    "#);
}

#[test]
fn a_value_can_name_a_file_to_write() {
    let folder = Folder::new("redirect");
    let bound = accepted("echo hi > ${item.v}; echo more >>\"${item.v}\"", Shell::Dash.dialect())
        .bind(&vars("$(touch canary) > x"))
        .unwrap();
    for shell in SHELLS {
        folder.run(shell, &bound, "");
        assert!(!folder.has_canary());
    }
    assert_eq!(folder.read("$(touch canary) > x"), "hi\nmore\nhi\nmore\n".split_at(8).1);
}
