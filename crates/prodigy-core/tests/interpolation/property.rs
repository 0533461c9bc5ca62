//! The same for any value at all.

use std::sync::LazyLock;

use prodigy_core::template::{Script, ShellDialect};
use proptest::prelude::*;

use super::{
    contexts::CONTEXTS,
    hostile::is_full,
    probe::{Folder, SHELLS, accepted, names, records, vars},
};

static FOLDER: LazyLock<Folder> = LazyLock::new(|| Folder::new("property"));
static RANDOM: LazyLock<Folder> = LazyLock::new(|| Folder::new("random"));

/// Text made of what shells care about.
fn shell_noise() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "'",
        "\"",
        "`",
        "\\",
        "$",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        "<<EOF",
        "\n",
        " ",
        ";",
        "|",
        "&",
        "#",
        "${item.v}",
        "${item.v|words}",
        "$${",
        "${x:-",
        "$((",
        "$'",
        "case ",
        " in ",
        "esac",
        "if ",
        "then ",
        "fi",
        "for ",
        "do ",
        "done",
        "eval ",
        "sh -c ",
        "x=",
        "=(",
        "[[ ",
        " ]]",
        "%",
        "EOF\n",
        "touch canary",
        "é",
        "-e ",
        "find -exec ",
        "\\;",
        "!",
        "jq ",
        "sed ",
        "${n",
        "${item.v:-",
        "|raw}",
        "<(",
        ">",
        "@(",
        "\t",
    ]);
    prop::collection::vec(pieces, 0..25).prop_map(|pieces| pieces.concat())
}

fn value() -> impl Strategy<Value = String> {
    let any = "(?s).{0,40}".prop_map(|text: String| text.replace('\0', "0"));
    prop_oneof![any, shell_noise()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_probe_sees_exactly_the_value(
        value in value(),
        context in prop::sample::select(CONTEXTS),
        shell in prop::sample::select(SHELLS.to_vec()),
    ) {
        prop_assume!(context.runs_in(shell));
        let bound = accepted(context.template, shell.dialect()).bind(&vars(value.as_str())).unwrap();
        let seen = records(&FOLDER.run(shell, &bound, &value));
        prop_assert_eq!(seen, vec![context.expected(&value)]);
        prop_assert!(!FOLDER.has_canary());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if is_full() { 500 } else { 48 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_probe_sees_exactly_a_value_that_travels_by_file(
        before in value(),
        after in value(),
        context in prop::sample::select(CONTEXTS),
        shell in prop::sample::select(SHELLS.to_vec()),
    ) {
        prop_assume!(context.runs_in(shell) && !context.hands_on() && !context.matches_slowly);
        let value = format!("{before}{}{after}", "x".repeat(96 * 1024 + 1));
        let bound = accepted(context.template, shell.dialect()).bind(&vars(value.as_str())).unwrap();
        prop_assert_eq!(&bound.env, &[]);
        let seen = records(&FOLDER.run(shell, &bound, &value));
        prop_assert!(seen == vec![context.expected(&value)], "{} with {:?} and {:?}", context.template, before, after);
        prop_assert!(!FOLDER.has_canary());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reading_any_script_never_panics(noise in shell_noise(), text in "(?s).{0,60}") {
        for dialect in [ShellDialect::Posix, ShellDialect::Bash] {
            for source in [&noise, &text, &format!("{noise}{text}${{item.v}}{noise}")] {
                if let Ok(script) = Script::parse(source, &names(), dialect, true) {
                    script.bind(&vars("value")).ok();
                }
            }
        }
    }
}

/// What random scripts are made of. They use no variable, file or pipe of their
/// own to carry the value to a second reader, so it runs only if we let it.
const PIECES: &[&str] = &[
    "${item.v}",
    "${item.v}",
    "${item.v}",
    "\"${item.v}\"",
    "'${item.v}'",
    "${item.v|words}",
    "$((${item.v}))",
    " ",
    " ",
    " ",
    " ",
    "\n",
    ";",
    "; ",
    " && ",
    " || ",
    " | ",
    "&",
    "'",
    "\"",
    "\"",
    "`",
    "\\",
    "$(",
    ")",
    "${u:-",
    "${u%",
    "${u",
    "}",
    "{ ",
    "; }",
    "(",
    "((",
    "))",
    "[ ",
    " ]",
    "[[ ",
    " ]]",
    " -eq ",
    " -v ",
    " = ",
    "<<EOF\n",
    "<<'EOF'\n",
    "<<-E\n",
    "\nEOF\n",
    "\nE\n",
    "<<<",
    " >/dev/null ",
    "#",
    "$'",
    "$\"",
    "$[",
    "]",
    "[",
    "a=",
    "a=(",
    "b+=",
    "a[",
    "]=",
    "echo ",
    "echo ",
    "true ",
    ": ",
    "printf ",
    "printf %s ",
    "test ",
    "eval ",
    "sh -c ",
    "bash -xc ",
    "env ",
    "env A=",
    "timeout 1 ",
    "exec ",
    "command ",
    "awk ",
    "sed ",
    "sed -n ",
    "-e ",
    "-c ",
    "find . -maxdepth 0 -exec ",
    " \\; ",
    " {} ",
    "declare ",
    "declare -i a",
    "local ",
    "export ",
    "read ",
    "unset ",
    "let ",
    "trap ",
    " EXIT",
    ". ",
    "if ",
    "then ",
    "fi ",
    "else ",
    "for i in ",
    "do ",
    "done ",
    "case ",
    " in ",
    "a) ",
    ";; ",
    "esac ",
    "! ",
    "f() ",
    "function f ",
    "f ",
    "time ",
    "sh ",
    "bash ",
    "perl -e ",
    "$${",
    "@(",
    "<(",
    ">(",
    "~",
    "*",
    "\t",
    "\r",
    "set -- ",
    "alias ",
    "xargs ",
    "printf -v ",
    "coproc ",
    "-s ",
    "- ",
    "nice ",
    "-n 1 ",
    "--",
    "é",
];

fn random_script() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 1..14).prop_map(|pieces| pieces.concat())
}

/// Values that make a canary in one kind of reader or another.
const ARMED: &[&str] = &[
    "$(touch canary)",
    "`touch canary`",
    "a[$(touch canary)]",
    "a[$(touch canary)]=1",
    "($(touch canary))",
    "; touch canary;",
    "touch canary",
    "\ntouch canary\n",
    "'; touch canary; '",
    "\"; touch canary; \"",
    "EOF\ntouch canary\n",
    "-c touch canary",
    "BEGIN{system(\"touch canary\")}",
    "1e touch canary",
    "-e1e touch canary",
    "system(\"touch canary\")",
    "x$(touch canary)",
    ") touch canary ;; (",
    "}; touch canary; {",
    "1+a[$(touch canary)]",
    "A=b touch canary",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: if is_full() { 20_000 } else { 400 }, failure_persistence: None, max_global_rejects: 1_000_000, ..ProptestConfig::default() })]

    #[test]
    fn no_accepted_script_runs_the_value(
        source in random_script(),
        value in prop::sample::select(ARMED),
        big in any::<bool>(),
        shell in prop::sample::select(SHELLS.to_vec()),
    ) {
        prop_assume!(source.contains("${item.v"));
        // A big value reaches the script in another way.
        let value = if big { format!("{value}\n#{}", "x".repeat(100 * 1024)) } else { value.to_owned() };
        let script = Script::parse(&source, &names(), shell.dialect(), false);
        prop_assume!(script.is_ok());
        let bound = script.unwrap().bind(&vars(value.as_str()));
        prop_assume!(bound.is_ok());
        RANDOM.try_run(shell, &bound.unwrap());
        prop_assert!(!RANDOM.take_canary(), "{} with {:?}", source, value.get(..40));
    }
}

#[test]
fn deep_nesting_is_an_error_and_not_a_crash() {
    for opening in ["$(", "(", "${x:-", "$((", "\"$(", "x=(", "case x in a) ", "@(", "<("] {
        let source = opening.repeat(20_000);
        Script::parse(&source, &names(), ShellDialect::Bash, false).ok();
    }
    let faults =
        Script::parse(&"$(".repeat(1000), &names(), ShellDialect::Bash, false).unwrap_err();
    insta::assert_snapshot!(faults[0].message, @"the script is nested too deeply");
}
