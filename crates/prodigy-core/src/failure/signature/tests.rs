//! Tests of signatures.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::failure::ReasonCode;

#[test]
fn what_differs_from_case_to_case_is_taken_out() {
    let messages = [
        "exit code 101",
        "cargo test failed with exit -1",
        "cannot write `src/a b.rs`: Permission denied (os error 13)",
        "thread 'main' panicked at src/main.rs:42:5:",
        "error[E0308]: mismatched types in Vec<u32>",
        "main.rs:42: can't find \"the thing\"",
        "GET https://example.com/a?b=1: timed out after 2.5s (30000 ms)",
        "2026-01-02T03:04:05.678Z lost at 12:30:45, 3/10 done",
        "no branch prodigy/job-7 of job 01JABC9Z7Q and item-12",
        "merge of 4f2a9c1 and d9428888-122b-11e1-b85c-61cd3cbb3210 failed",
        "pointer 0x7ffd is null",
        "C:\\Users\\me\\x.txt is missing...",
        "version v1.2.3-beta.4 needs a=5 b=/tmp/x c=0x10",
        "a facade of words, e.g. java.lang.NullPointerException!",
        "  many\n\tlines \u{1b}[31m ",
        "don't 'quote",
        "",
    ];
    let table: Vec<String> = messages
        .iter()
        .map(|text| format!("{}\n    {}", text.escape_debug(), normalize(text)))
        .collect();
    insta::assert_snapshot!(table.join("\n"), @r#"
        exit code 101
            exit code <n>
        cargo test failed with exit -1
            cargo test failed with exit <n>
        cannot write `src/a b.rs`: Permission denied (os error 13)
            cannot write <q>: Permission denied (os error <n>)
        thread \'main\' panicked at src/main.rs:42:5:
            thread <q> panicked at <path>:
        error[E0308]: mismatched types in Vec<u32>
            error[E0308]: mismatched types in Vec<u<n>>
        main.rs:42: can\'t find \"the thing\"
            <path>: can't find <q>
        GET https://example.com/a?b=1: timed out after 2.5s (30000 ms)
            GET <url>: timed out after <time> (<n> ms)
        2026-01-02T03:04:05.678Z lost at 12:30:45, 3/10 done
            <time> lost at <time>, <n>/<n> done
        no branch prodigy/job-7 of job 01JABC9Z7Q and item-12
            no branch <path> of job <id> and item-<n>
        merge of 4f2a9c1 and d9428888-122b-11e1-b85c-61cd3cbb3210 failed
            merge of <n> and <id> failed
        pointer 0x7ffd is null
            pointer <n> is null
        C:\\Users\\me\\x.txt is missing...
            <path> is missing...
        version v1.2.3-beta.4 needs a=5 b=/tmp/x c=0x10
            version v<n>-beta.<n> needs a=<n> b=<path> c=<n>
        a facade of words, e.g. java.lang.NullPointerException!
            a facade of words, e.g. java.lang.NullPointerException!
          many\n\tlines \u{1b}[31m 
            many lines
        don\'t \'quote
            don't 'quote
        "#);
    let data = "QUJD".repeat(100);
    assert_eq!(normalize(&format!("bad token {data} here")), "bad token <long> here");
}

#[test]
fn a_signature_has_a_hash_and_a_pattern() {
    let failure = Failure::new(ReasonCode::CommandFailed, "cargo test failed with exit 101");
    let signature = ErrorSignature::of(&failure, &ItemId::from_position(1, 1));
    insta::assert_snapshot!(format!("{} {}", signature.hash, signature.pattern), @"ea5a2e34d22147e0 CommandFailed::cargo test failed with exit <n>");
    let other = Failure::new(ReasonCode::Timeout, "cargo test failed with exit 101");
    assert_ne!(ErrorSignature::of(&other, &ItemId::from_position(1, 1)).hash, signature.hash);
    let mut same = Failure::new(ReasonCode::CommandFailed, "cargo test failed with exit 1");
    same.exit_code = Some(1);
    assert_eq!(ErrorSignature::of(&same, &ItemId::from_position(1, 1)), signature);
}

/// Returns the groups of messages in the corpus, each with its name; `\\e` is an escape.
fn corpus() -> Vec<(String, Vec<String>)> {
    let text = include_str!("corpus.txt").replace("\\e[", "\u{1b}[");
    let groups = text.split("\n\n").map(|group| {
        let mut lines = group.trim().lines();
        let name = lines.next().unwrap().strip_prefix("# ").unwrap().to_owned();
        (name, lines.map(str::to_owned).collect())
    });
    groups.collect()
}

#[test]
fn messages_of_one_cause_have_one_signature_that_no_other_cause_has() {
    let corpus = corpus();
    let messages = corpus.iter().map(|(_, messages)| messages.len()).sum::<usize>();
    assert!(messages >= 200 && corpus.len() >= 90, "{messages} in {}", corpus.len());
    let mut known: BTreeMap<String, (&str, &str)> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (name, messages) in &corpus {
        let pattern = |text: &str| {
            ErrorSignature::of(
                &Failure::new(ReasonCode::CommandFailed, text),
                &ItemId::from_position(1, 1),
            )
            .pattern
        };
        let first = pattern(&messages[0]);
        for message in messages {
            if pattern(message) != first {
                let other = pattern(message);
                wrong.push(format!("{name}: one cause, two signatures\n  {first}\n  {other}"));
            }
        }
        if let Some((other, example)) = known.insert(first.clone(), (name, &messages[0])) {
            let mine = &messages[0];
            wrong.push(format!(
                "{other} and {name}: two causes, one signature {first}\n  {example}\n  {mine}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn the_line_that_says_what_went_wrong_is_found() {
    let outputs = [
        "compiling\nerror[E0308]: mismatched types\n --> src/a.rs:1:2\n  |\n3 |  let error = 5;\n  |      ^ expected error\n\nerror: aborting due to 1 previous error\nerror: could not compile `a` (lib) due to 1 previous error",
        "Traceback (most recent call last):\n  File \"x.py\", line 3, in <module>\n    raise ValueError('no')\nValueError: no",
        "thread 'main' panicked at src/a.rs:5:9:\nthe answer is missing\nnote: run with `RUST_BACKTRACE=1` to see an error backtrace",
        "test a::fails_well ... ok\nall went well",
        "error: failed to push some refs to 'x'",
        "gcc: \u{1b}[1;31mfatal error:\u{1b}[0m no input files\ncompilation terminated.\nmake: *** [Makefile:3: all] Error 1",
        "  \n----\n",
        "",
        "one\ttab\rand\u{7} bell failed\n",
    ];
    let lines: Vec<_> = outputs.iter().map(|text| error_line(text).unwrap_or("-".into())).collect();
    insta::assert_snapshot!(lines.join("\n"), @"
        error[E0308]: mismatched types
        ValueError: no
        the answer is missing
        all went well
        error: failed to push some refs to 'x'
        gcc: fatal error: no input files
        -
        -
        one tab and bell failed
        ");
    let long = error_line(&"x".repeat(5000)).unwrap();
    assert_eq!(long.chars().count(), 201);
}

#[test]
fn a_bare_exit_code_is_told_with_its_step_and_its_output() {
    let failure = |message: &str, output: &str| {
        let mut failure = Failure::new(ReasonCode::CommandFailed, message);
        failure.output_tail = output.to_owned();
        failure
    };
    let told = |message, output, step| {
        let once = with_summary(failure(message, output), step);
        assert_eq!(super::with_summary(once.clone(), step), once);
        once.message
    };
    let messages = [
        told("exit code 101", "error[E0308]: mismatched types\n", Some("shell: cargo test")),
        told("exit code 101", "", Some("shell: cargo test")),
        told("exit code 1", "oh no", Some("build it")),
        told("exit code 1", "oh no", None),
        told("ended by signal 9", "", Some("shell: make")),
        told("exit code 2", "Process failed with exit code 3", Some("shell: make")),
        told("2 of 3 failed; the first is 1: exit code 4", "no such user", Some("foreach")),
        told("still running after 5s", "error: no", Some("shell: make")),
        told("the agent exited with code 3: no key", "no key", Some("claude: do it")),
        told("exit code 4; there is no reason code `x`", "error: no", Some("shell: make")),
        told("exit code 1", "no", Some(&format!("shell: {}", "long ".repeat(30)))),
    ];
    insta::assert_snapshot!(messages.join("\n"), @"
        `cargo test` failed with exit code 101: error[E0308]: mismatched types
        `cargo test` failed with exit code 101
        `build it` failed with exit code 1: oh no
        exit code 1: oh no
        `make` was ended by signal 9
        `make` failed with exit code 2: Process failed with exit code 3
        2 of 3 failed; the first is 1: exit code 4: no such user
        still running after 5s
        the agent exited with code 3: no key
        exit code 4; there is no reason code `x`
        `long long long long long long long long long long long long…` failed with exit code 1: no
        ");
}

/// Text made of what messages are made of.
fn message() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "a",
        "rs",
        "1",
        "42",
        "0x",
        "ff",
        ".",
        ":",
        "/",
        "\\",
        "'",
        "\"",
        "`",
        " ",
        "-",
        "<",
        ">",
        "n",
        "<n>",
        "<path>",
        "T",
        "Z",
        "://",
        "=",
        "(",
        ")",
        "é",
        "\n",
        "\u{0}",
        "2026-01-02",
        "%",
        "deadbeef",
        "file.rs",
        "123e4567-e89b-12d3-a456-426614174000",
        "can't",
        "_",
        ",",
        "abcdefgh",
        "error",
        "E0308",
        "TS2345:",
        "SQLSTATE",
        "[",
        "]",
        "@",
        "com",
        "localhost",
        "ms",
        "5s",
        "kB",
        "\u{1b}[31m",
        "\u{1b}",
        "<host>",
        "<time>",
    ]);
    prop_oneof![
        prop::collection::vec(pieces, 0..40).prop_map(|pieces| pieces.concat()),
        "(?s).{0,300}",
    ]
}

/// Marks where numbers stand in a message.
const NUMBERED: &[&str] = &[
    "exit code # in step #",
    "item-# took #ms of #.#s, (#) [#] {#}",
    "x=# y:# #% #/# -# v#.#.#",
    "at main.rs:#:# and /tmp/run-#/x#",
    "line #: \"the # in quotes\"",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_normal_stays_as_it_is(message in message()) {
        let once = normalize(&message);
        prop_assert_eq!(normalize(&once), once, "{:?}", message);
    }

    #[test]
    fn a_pattern_is_short_and_fit_to_print(message in message(), times in 1_usize..50) {
        let normal = normalize(&message.repeat(times));
        prop_assert!(normal.chars().count() <= 200);
        prop_assert!(!normal.contains(char::is_control));
        // Only the codes of errors keep their numbers.
        let words = normal.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        for word in words.filter(|word| word.contains(|c: char| c.is_ascii_digit())) {
            prop_assert!(word.len() <= 12 && !word.contains(|c: char| c.is_ascii_lowercase()), "{normal}");
        }
    }

    #[test]
    fn what_is_told_is_told_once(message in message(), output in message(), step in message()) {
        for start in ["exit code 1", "ended by signal 9", "x: exit code 12", message.as_str()] {
            let mut failure = Failure::new(ReasonCode::CommandFailed, start);
            failure.output_tail = output.clone();
            let once = with_summary(failure, Some(&step));
            prop_assert_eq!(with_summary(once.clone(), Some(&step)), once);
        }
    }

    #[test]
    fn numbers_do_not_matter(template in prop::sample::select(NUMBERED), numbers in prop::collection::vec(any::<u32>(), 12)) {
        let fill = |mut number: Box<dyn FnMut() -> u32>| {
            template.split('#').collect::<Vec<_>>().iter().fold(String::new(), |text, piece| {
                if text.is_empty() { (*piece).to_owned() } else { format!("{text}{}{piece}", number()) }
            })
        };
        let mut numbers = numbers.into_iter();
        let filled = fill(Box::new(move || numbers.next().unwrap_or(0)));
        prop_assert_eq!(normalize(&filled), normalize(&fill(Box::new(|| 7))));
    }
}

#[test]
fn long_messages_take_no_longer_than_they_are_long() {
    for piece in ["'", "\"", "a'", " 'a", "1-", "a.", "://", "0x", "-1", "\\"] {
        let message = piece.repeat(1_000_000);
        assert!(normalize(&message).len() <= 4 * 200);
    }
}
