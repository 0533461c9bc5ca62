//! The same for any value at all.

use std::sync::LazyLock;

use prodigy_core::template::{Dialect, Script};
use proptest::prelude::*;

use super::{
    contexts::CONTEXTS,
    probe::{Folder, SHELLS, accepted, names, records, vars},
};

static FOLDER: LazyLock<Folder> = LazyLock::new(|| Folder::new("property"));

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
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reading_any_script_never_panics(noise in shell_noise(), text in "(?s).{0,60}") {
        for dialect in [Dialect::Posix, Dialect::Bash] {
            for source in [&noise, &text, &format!("{noise}{text}${{item.v}}{noise}")] {
                if let Ok(script) = Script::parse(source, &names(), dialect, true) {
                    script.bind(&vars("value")).ok();
                }
            }
        }
    }
}

#[test]
fn deep_nesting_is_an_error_and_not_a_crash() {
    for opening in ["$(", "(", "${x:-", "$((", "\"$(", "x=(", "case x in a) ", "@(", "<("] {
        let source = opening.repeat(20_000);
        Script::parse(&source, &names(), Dialect::Bash, false).ok();
    }
    let faults = Script::parse(&"$(".repeat(1000), &names(), Dialect::Bash, false).unwrap_err();
    insta::assert_snapshot!(faults[0].message, @"the script is nested too deeply");
}
