//! A trail that was cut off, changed or lost.

use std::fs;

use prodigy_core::audit::{AuditVerification, ChainError, ChainHead};

use super::fixture::{Ground, at, said};
use crate::store::{
    audit::{
        Error, anchor_ref,
        trail::{AnchorMismatch, AuditTail},
        verify_trail,
    },
    fixture::files_in,
};

/// Returns a trail of three records and, as bytes, where the last one begins.
fn three() -> (Ground, Vec<u8>, usize) {
    let ground = Ground::new();
    ground.audit().append(vec![said(1), said(2)], at(0)).unwrap();
    let begin = ground.text().len();
    ground.append(3);
    let text = ground.text();
    (ground, text, begin)
}

/// Returns the error of an append.
#[track_caller]
fn refused(ground: &Ground) -> String {
    let error = ground.audit().append(vec![said(9)], at(9)).unwrap_err();
    assert_eq!(error.hint().as_deref(), Some("`prodigy audit verify` looks closer"), "{error:?}");
    ground.show(&error)
}

#[test]
fn an_append_that_was_killed_at_any_byte_leaves_a_trail_that_goes_on() {
    let (ground, text, begin) = three();
    let anchor =
        ChainHead::from_line(text[..begin - 1].rsplit(|byte| *byte == b'\n').next().unwrap());
    let anchor = anchor.unwrap();
    for length in begin..=text.len() {
        ground.put(&text[..length]);
        let file = fs::File::open(ground.layout.audit_file()).unwrap();
        let tail = AuditTail::find(&file).ok().unwrap();
        let is_whole = length == text.len();
        let end = if is_whole { length } else { begin };
        assert_eq!((tail.end, tail.torn), (end as u64, (length - end) as u64));
        let head = tail.verify_against(&file, &anchor).ok().unwrap();
        assert_eq!(head.seq, if is_whole { 3 } else { 2 });
    }
}

#[test]
fn an_anchored_record_that_was_cut_at_any_byte_is_missed() {
    let (ground, text, begin) = three();
    let anchor = ground.anchored().parse().unwrap();
    for length in 0..text.len() {
        ground.put(&text[..length]);
        let file = fs::File::open(ground.layout.audit_file()).unwrap();
        let head = AuditTail::find(&file).and_then(|tail| tail.verify_against(&file, &anchor));
        assert!(matches!(head, Err(AnchorMismatch::Reason(_))), "cut at {length}");
    }
    ground.put(&text[..begin + 7]);
    insta::assert_snapshot!(refused(&ground), @"the audit trail `$ROOT/home/audit/repo/audit.jsonl` is not what was recorded: it ends at record 2 of 3");
    assert_eq!(ground.verified(), AuditVerification::Truncated { have: 2, anchored: 3 });
}

#[test]
fn half_a_record_is_put_aside_and_the_trail_goes_on() {
    let (ground, text, begin) = three();
    let anchor = ChainHead { seq: 2, hash: ground.records()[1].hash.clone() };
    for (round, half) in [1, 100, text.len() - begin - 1].into_iter().enumerate() {
        let object = ground.repo.read_anchor(&anchor_ref(&ground.layout)).unwrap().unwrap();
        let name = anchor_ref(&ground.layout);
        ground.repo.move_anchor(&name, &anchor.to_string(), Some(&object)).unwrap();
        ground.put(&text[..begin + half]);
        let AuditVerification::Whole { head, torn, .. } = ground.verified() else {
            panic!("{half}")
        };
        assert_eq!((head, torn), (anchor.clone(), half as u64));
        ground.append(4);
        let records = ground.records();
        assert_eq!((records.len(), records[2].said.entry.as_str()), (3, "item-004"));
        let directory = ground.layout.audit_file().parent().unwrap().to_owned();
        let files = files_in(&directory);
        let aside: Vec<_> = files.iter().filter(|(name, _)| name.contains("torn")).collect();
        assert_eq!(aside.len(), round + 1);
        assert!(aside.iter().any(|(_, bytes)| *bytes == text[begin..begin + half]));
        assert!(matches!(
            ground.verified(),
            AuditVerification::Whole { torn: 0, unanchored: 0, .. }
        ));
    }
}

#[test]
fn records_that_were_written_and_not_anchored_stay_and_are_anchored_by_the_next_append() {
    let (ground, _, _) = three();
    let name = anchor_ref(&ground.layout);
    let object = ground.repo.read_anchor(&name).unwrap().unwrap();
    let first = ChainHead { seq: 1, hash: ground.records()[0].hash.clone() };
    for anchor in [first, ChainHead::start()] {
        let object = ground.repo.read_anchor(&name).unwrap().unwrap();
        ground.repo.move_anchor(&name, &anchor.to_string(), Some(&object)).unwrap();
        let before = ground.records();
        let behind = before.len() as u64 - anchor.seq;
        let verified = ground.verified();
        let AuditVerification::Whole { unanchored, .. } = verified else { panic!("{verified:?}") };
        assert_eq!(unanchored, behind);
        ground.append(4);
        assert_eq!(ground.records()[..before.len()], before);
        assert!(matches!(ground.verified(), AuditVerification::Whole { unanchored: 0, .. }));
    }
    // Somebody who had read the old anchor cannot move it any more.
    assert!(ground.repo.move_anchor(&name, "x", Some(&object)).is_err());
    assert!(ground.repo.move_anchor(&name, "x", None).is_err());
}

#[test]
fn a_file_that_was_deleted_or_emptied_is_missed() {
    let (ground, ..) = three();
    fs::remove_file(ground.layout.audit_file()).unwrap();
    assert_eq!(ground.verified(), AuditVerification::Truncated { have: 0, anchored: 3 });
    insta::assert_snapshot!(refused(&ground), @"the audit trail `$ROOT/home/audit/repo/audit.jsonl` is not what was recorded: it ends at record 0 of 3");
    ground.put(b"");
    assert_eq!(ground.verified(), AuditVerification::Truncated { have: 0, anchored: 3 });
    refused(&ground);
    // The lock may be gone as well.
    fs::remove_dir_all(ground.layout.audit_file().parent().unwrap()).unwrap();
    assert_eq!(ground.verified(), AuditVerification::Truncated { have: 0, anchored: 3 });
}

#[test]
fn a_last_record_that_was_changed_is_not_built_on() {
    let (ground, text, begin) = three();
    for bit in 0..8 {
        let mut changed = text.clone();
        changed[begin + 20] ^= 1 << bit;
        ground.put(&changed);
        refused(&ground);
        let verified = ground.verified();
        assert!(matches!(verified, AuditVerification::Broken { line: 3, .. }), "{verified:?}");
    }
    let mut other = ChainHead { seq: 2, hash: ground_hash(&text, 1) };
    let record = other.append(said(7), at(0));
    ground.put(&[&text[..begin], record.to_line().as_bytes(), b"\n"].concat());
    insta::assert_snapshot!(refused(&ground), @"the audit trail `$ROOT/home/audit/repo/audit.jsonl` is not what was recorded: its last line does not fit: it is not the record that is anchored in git: the records up to here were made anew");
    let broken = AuditVerification::Broken { line: 3, why: ChainError::OtherThanAnchored };
    assert_eq!(ground.verified(), broken);
}

fn ground_hash(text: &[u8], line: usize) -> String {
    ChainHead::from_line(text.split(|byte| *byte == b'\n').nth(line).unwrap()).unwrap().hash
}

#[test]
fn a_trail_without_its_anchor_is_not_built_on() {
    let (ground, ..) = three();
    ground.git(&["update-ref", "-d", &anchor_ref(&ground.layout)]);
    insta::assert_snapshot!(refused(&ground), @"the audit trail `$ROOT/home/audit/repo/audit.jsonl` is not what was recorded: its anchor, the reference `$REFERENCE`, is gone");
    assert_eq!(ground.verified(), AuditVerification::Unanchored { records: 3 });
}

#[test]
fn an_anchor_that_holds_something_else_is_named() {
    let (ground, ..) = three();
    ground.git(&["update-ref", &anchor_ref(&ground.layout), "HEAD:"]);
    let error = ground.audit().append(vec![said(9)], at(9)).unwrap_err();
    assert!(matches!(error, Error::Anchor(_)), "{error:?}");
    let name = anchor_ref(&ground.layout);
    ground.git(&["update-ref", "-d", &name]);
    ground.repo.move_anchor(&name, "3 abc", None).unwrap();
    insta::assert_snapshot!(refused(&ground), @"the reference `$REFERENCE` does not hold the head of the audit trail: `3 abc` is not the head of an audit trail");
    assert!(matches!(verify_trail(&ground.layout, &ground.repo), Err(Error::NoHead { .. })));
}

#[test]
fn a_line_without_an_end_does_not_fill_the_memory() {
    let (ground, text, _) = three();
    let long = [text.as_slice(), &vec![b'x'; 3 << 20]].concat();
    ground.put(&long);
    insta::assert_snapshot!(refused(&ground), @"the audit trail `$ROOT/home/audit/repo/audit.jsonl` is not what was recorded: its last line has no end");
    let verified = ground.verified();
    assert!(matches!(verified, AuditVerification::Broken { line: 4, .. }), "{verified:?}");
}
