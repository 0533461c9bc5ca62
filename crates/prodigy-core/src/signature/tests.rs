//! Tests of signatures.

use proptest::prelude::*;

use super::*;
use crate::failure::FailureKind;

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
        .map(|text| format!("{}\n    {}", text.escape_debug(), normal(text)))
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
        error[E<n>]: mismatched types in Vec<u<n>>
    main.rs:42: can\'t find \"the thing\"
        <path>: can't find <q>
    GET https://example.com/a?b=1: timed out after 2.5s (30000 ms)
        GET <url>=<n>: timed out after <n>s (<n> ms)
    2026-01-02T03:04:05.678Z lost at 12:30:45, 3/10 done
        <time> lost at <time>, <n>/<n> done
    no branch prodigy/job-7 of job 01JABC9Z7Q and item-12
        no branch <path> of job <id> and item-<n>
    merge of 4f2a9c1 and d9428888-122b-11e1-b85c-61cd3cbb3210 failed
        merge of <hex> and <id> failed
    pointer 0x7ffd is null
        pointer <hex> is null
    C:\\Users\\me\\x.txt is missing...
        <path> is missing...
    version v1.2.3-beta.4 needs a=5 b=/tmp/x c=0x10
        version v<n>-beta.<n> needs a=<n> b=<path> c=<hex>
    a facade of words, e.g. java.lang.NullPointerException!
        a facade of words, e.g. java.lang.NullPointerException!
      many\n\tlines \u{1b}[31m 
        many lines [<n>m
    don\'t \'quote
        don't 'quote
    "#);
    let data = "QUJD".repeat(100);
    assert_eq!(normal(&format!("bad token {data} here")), "bad token <long> here");
}

#[test]
fn a_signature_has_a_hash_and_a_pattern() {
    let failure = Failure::new(FailureKind::CommandFailed, "cargo test failed with exit 101");
    let signature = Signature::of(&failure);
    insta::assert_snapshot!(format!("{} {}", signature.hash, signature.pattern), @"ea5a2e34d22147e0 CommandFailed::cargo test failed with exit <n>");
    let other = Failure::new(FailureKind::Timeout, "cargo test failed with exit 101");
    assert_ne!(Signature::of(&other).hash, signature.hash);
    let mut same = Failure::new(FailureKind::CommandFailed, "cargo test failed with exit 1");
    same.exit_code = Some(1);
    assert_eq!(Signature::of(&same), signature);
}

#[test]
fn every_kind_of_failure_has_an_error_type() {
    let table: Vec<String> =
        FailureKind::ALL.iter().map(|kind| format!("{kind}: {}", error_type(*kind))).collect();
    insta::assert_snapshot!(table.join("\n"), @"
        timeout: Timeout
        stalled: Timeout
        command_failed: CommandFailed
        spawn_failed: CommandFailed
        parse_error: ValidationFailed
        template_error: ValidationFailed
        no_commit: CommitValidationFailed
        validation_failed: ValidationFailed
        agent_error: CommandFailed
        agent_crashed: CommandFailed
        permission_denied: PermissionError
        worktree_error: WorktreeError
        disk_full: ResourceExhausted
        merge_conflict: MergeConflict
        dirty_target: WorktreeError
        input_missing: ValidationFailed
        schema_invalid: ValidationFailed
        poison_repeat: Unknown
        network_error: NetworkError
        worker_lost: Unknown
        cancelled: Unknown
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
        let once = normal(&message);
        prop_assert_eq!(normal(&once), once, "{:?}", message);
    }

    #[test]
    fn a_pattern_is_short_and_fit_to_print(message in message(), times in 1_usize..50) {
        let normal = normal(&message.repeat(times));
        prop_assert!(normal.chars().count() <= 160);
        prop_assert!(!normal.contains(char::is_control));
        prop_assert!(!normal.contains(|c: char| c.is_ascii_digit()));
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
        prop_assert_eq!(normal(&filled), normal(&fill(Box::new(|| 7))));
    }
}

#[test]
fn long_messages_take_no_longer_than_they_are_long() {
    for piece in ["'", "\"", "a'", " 'a", "1-", "a.", "://", "0x", "-1", "\\"] {
        let message = piece.repeat(1_000_000);
        assert!(normal(&message).len() <= 4 * 160);
    }
}
