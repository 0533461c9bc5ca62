//! Every way to change an audit trail is found.

use proptest::prelude::*;

use super::*;
use crate::Timestamp;

fn new_record(number: u64) -> NewAuditRecord {
    let job = "job-1".parse().unwrap();
    NewAuditRecord {
        entry: format!("item-{number:03}"),
        revision: 2,
        decision: Some("replay".to_owned()),
        rule: Some("defaults".to_owned()),
        // An escape can be written in two ways.
        reason: Some(format!("try \u{1b}[1m{number}\u{1b}[0m: \"again\"\n")),
        ..NewAuditRecord::new("ada@example.com", IdentityKind::Asserted, AuditAction::Replay, job)
    }
}

fn now() -> Timestamp {
    "2026-01-02T03:04:05.678Z".parse().unwrap()
}

/// Returns the lines of a trail, each with its newline, and its head.
fn trail(records: u64) -> (Vec<String>, ChainHead) {
    let mut head = ChainHead::start();
    let line = |number| head.append(new_record(number), now()).to_line() + "\n";
    let lines = (1..=records).map(line).collect();
    (lines, head)
}

fn found(lines: &[String], anchor: &ChainHead) -> AuditVerification {
    verify(lines.concat().as_bytes(), Some(anchor.clone()))
}

fn newlines(text: &[u8]) -> u64 {
    u64::try_from(text.split(|byte| *byte == b'\n').count() - 1).unwrap()
}

fn broken(line: u64, why: ChainError) -> AuditVerification {
    AuditVerification::Broken { line, why }
}

#[test]
fn a_record_has_one_form_on_disk() {
    let mut head = ChainHead::start();
    let record = head.append(new_record(1), now());
    insta::assert_snapshot!(record.to_line(), @r#"{"seq":1,"ts":"2026-01-02T03:04:05.678Z","actor":"ada@example.com","identity":"asserted","action":"replay","job":"job-1","entry":"item-001","entries":null,"revision":2,"decision":"replay","rule":"defaults","policy_snapshot":null,"digest":null,"reason":"try \u001b[1m1\u001b[0m: \"again\"\n","outcome":"intended","prev_hash":"0000000000000000000000000000000000000000000000000000000000000000","hash":"9b784d9bfde6f0cfa2f4699ed25357b76d6be8a1ea4a110eef5e7b64f2b2cfbd"}"#);
    assert_eq!(serde_json::from_str::<AuditRecord>(&record.to_line()).unwrap(), record);
    assert_eq!(head.to_string().parse(), Ok(head));
}

#[test]
fn names_are_those_of_the_records() {
    for action in AuditAction::ALL {
        assert_eq!(serde_json::to_value(action).unwrap(), action.name());
    }
    for outcome in [
        AuditOutcome::Intended,
        AuditOutcome::Done,
        AuditOutcome::Failed,
        AuditOutcome::Denied,
        AuditOutcome::Refused,
    ] {
        assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.name());
    }
    for identity in [IdentityKind::Asserted, IdentityKind::Signed] {
        assert_eq!(serde_json::to_value(identity).unwrap(), identity.name());
    }
}

#[test]
fn a_trail_that_nobody_touched_is_whole() {
    let (lines, head) = trail(5);
    let whole = AuditVerification::Whole { head: head.clone(), unanchored: 0, torn: 0 };
    assert_eq!(found(&lines, &head), whole);
    let none = AuditVerification::Whole { head: ChainHead::start(), unanchored: 0, torn: 0 };
    assert_eq!(verify(b"", None), none);
    assert_eq!(verify(b"", Some(ChainHead::start())), none);
}

#[test]
fn a_field_of_a_newer_prodigy_breaks_no_chain() {
    let (lines, _) = trail(1);
    let more = lines[0].trim_end().replacen('{', "{\"mood\":\"good\",", 1);
    let hash = sha256_without_hash(&more);
    let (before, _) = more.rsplit_once("\"hash\":").unwrap();
    let line = format!("{before}\"hash\":\"{hash}\"}}");
    let mut head = ChainHead::start();
    assert_eq!(head.advance(line.as_bytes()), Ok(()));
}

fn sha256_without_hash(line: &str) -> String {
    let canonical = crate::json_value::canonical_json_without("hash", line).unwrap();
    crate::json_value::sha256(canonical.as_bytes())
}

#[test]
fn every_flipped_bit_of_every_byte_is_found_with_its_line() {
    let (lines, head) = trail(3);
    let text = lines.concat().into_bytes();
    let mut line = 1;
    for at in 0..text.len() {
        for bit in 0..8 {
            let mut changed = text.clone();
            changed[at] ^= 1 << bit;
            let verified = verify(&changed, Some(head.clone()));
            if at + 1 == text.len() {
                // The last newline is what makes a line whole.
                assert_eq!(
                    verified,
                    AuditVerification::Truncated { have: 2, anchored: 3 },
                    "bit {bit}"
                );
                continue;
            }
            let AuditVerification::Broken { line: named, .. } = verified else {
                panic!("byte {at}, bit {bit}: {verified:?}");
            };
            assert_eq!(named, line, "byte {at}, bit {bit}");
        }
        line += u64::from(text[at] == b'\n');
    }
}

#[test]
fn a_removed_line_is_found() {
    let (lines, head) = trail(4);
    for at in 0..3 {
        let mut left = lines.clone();
        left.remove(at);
        let line = u64::try_from(at).unwrap() + 1;
        let why = ChainError::Misplaced { found: line + 1, wanted: line };
        assert_eq!(found(&left, &head), broken(line, why));
    }
}

#[test]
fn a_swapped_pair_is_found() {
    let (mut lines, head) = trail(4);
    lines.swap(1, 2);
    assert_eq!(found(&lines, &head), broken(2, ChainError::Misplaced { found: 3, wanted: 2 }));
}

#[test]
fn an_inserted_line_is_found_however_well_it_was_made() {
    let (lines, head) = trail(4);
    let mut doubled = lines.clone();
    doubled.insert(2, lines[1].clone());
    let misplaced = |line, found, wanted| broken(line, ChainError::Misplaced { found, wanted });
    assert_eq!(found(&doubled, &head), misplaced(3, 2, 3));

    let mut forged = lines.clone();
    let mut second = ChainHead::from_line(lines[1].trim_end().as_bytes()).unwrap();
    forged.insert(2, second.append(new_record(9), now()).to_line() + "\n");
    assert_eq!(found(&forged, &head), misplaced(4, 3, 4));

    let mut replaced = lines.clone();
    let mut second = ChainHead::from_line(lines[1].trim_end().as_bytes()).unwrap();
    replaced[2] = second.append(new_record(9), now()).to_line() + "\n";
    assert_eq!(found(&replaced, &head), broken(4, ChainError::Unlinked));
}

#[test]
fn a_chain_that_was_made_anew_does_not_fit_the_anchor() {
    let (_, head) = trail(3);
    let mut other = ChainHead::start();
    let line = |number: u64| other.append(new_record(number + 1), now()).to_line() + "\n";
    let lines: Vec<_> = (1..=5).map(line).collect();
    assert_eq!(found(&lines, &head), broken(3, ChainError::OtherThanAnchored));
}

#[test]
fn a_cut_tail_is_found_wherever_it_was_cut() {
    let (lines, head) = trail(3);
    let text = lines.concat().into_bytes();
    for length in 0..text.len() {
        let cut = &text[..length];
        let have = newlines(cut);
        assert_eq!(
            verify(cut, Some(head.clone())),
            AuditVerification::Truncated { have, anchored: 3 }
        );
    }
}

#[test]
fn what_an_append_left_that_was_cut_off_is_no_damage_and_is_counted() {
    let (lines, _) = trail(3);
    let text = lines.concat().into_bytes();
    let anchor = ChainHead::from_line(lines[0].trim_end().as_bytes()).unwrap();
    for length in lines[0].len()..=text.len() {
        let cut = &text[..length];
        let (have, rest) = match cut.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => cut.split_at(end + 1),
            None => cut.split_at(0),
        };
        let AuditVerification::Whole { head, unanchored, torn } = verify(cut, Some(anchor.clone()))
        else {
            panic!("cut at {length}");
        };
        let whole = newlines(have);
        assert_eq!((head.seq, unanchored), (whole, whole - 1));
        assert_eq!(torn, u64::try_from(rest.len()).unwrap());
    }
}

#[test]
fn records_without_an_anchor_are_not_believed() {
    let (lines, _) = trail(2);
    let text = lines.concat();
    assert_eq!(verify(text.as_bytes(), None), AuditVerification::Unanchored { records: 2 });
    assert_eq!(verify(b"{", None), AuditVerification::Unanchored { records: 0 });
}

#[test]
fn what_is_wrong_is_said_plainly() {
    let flaws = [
        ChainError::Layout,
        ChainError::Changed,
        ChainError::Misplaced { found: 3, wanted: 2 },
        ChainError::Unlinked,
        ChainError::OtherThanAnchored,
        ChainHead::start().advance(b"{}").unwrap_err(),
        ChainHead::start().advance(b"\xff").unwrap_err(),
    ];
    insta::assert_snapshot!(flaws.map(|flaw| flaw.to_string()).join("\n"), @"
    it is not written the way in which prodigy writes records
    it was changed: its content does not have the hash that stands in it
    it is record 3 where record 2 should be
    the record before it is not the one that it was written behind
    it is not the record that is anchored in git: the records up to here were made anew
    it is not a record of the audit trail: missing field `seq` at line 1 column 2
    it is not a record of the audit trail: invalid utf-8 sequence of 1 bytes from index 0
    ");
}

#[test]
fn a_text_that_is_no_head_is_not_taken_for_one() {
    let zeros = "0".repeat(64);
    let texts = ["", "1", "x y", &format!("1 {zeros}0"), &format!("0 {}", zeros.replace('0', "1"))];
    for text in texts {
        assert!(text.parse::<ChainHead>().is_err(), "{text}");
    }
    assert_eq!(format!("0 {zeros}").parse(), Ok(ChainHead::start()));
}

proptest! {
    #[test]
    fn no_bytes_make_a_check_fail_or_pass_by_chance(
        records in 1_u64..6,
        at in 0_usize..4000,
        noise in proptest::collection::vec(any::<u8>(), 1..40),
    ) {
        let (lines, head) = trail(records);
        let mut text = lines.concat().into_bytes();
        let at = at % text.len();
        let end = (at + noise.len()).min(text.len());
        let before = text.clone();
        text.splice(at..end, noise);
        let verified = verify(&text, Some(head));
        if text == before {
            let is_whole = matches!(verified, AuditVerification::Whole { .. });
            prop_assert!(is_whole);
        } else {
            // Noise at the very end, behind whole records, is a torn tail.
            let is_whole = matches!(verified, AuditVerification::Whole { torn: 0, .. });
            prop_assert!(!is_whole, "{verified:?}");
        }
    }
}
