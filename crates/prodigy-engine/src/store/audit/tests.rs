//! The audit trail, with real files and a real repository.

mod damage;
mod fixture;

use std::{fs, os::unix::fs::PermissionsExt as _, thread};

use prodigy_core::audit::{AuditOutcome, AuditVerification, ChainHead};

use super::{Error, anchor_ref, read_trail, verify_trail};
use crate::store::fixture as process;
use fixture::{Ground, at, said};

#[test]
fn what_was_appended_is_read_back_and_anchored() {
    let ground = Ground::new();
    let audit = ground.audit();
    assert_eq!(
        ground.verified(),
        AuditVerification::Whole { head: ChainHead::start(), unanchored: 0, torn: 0 }
    );
    let first = audit.append(vec![said(1)], at(0)).unwrap();
    let more = vec![said(2).with_outcome(AuditOutcome::Done), said(3)];
    let more = audit.append(more, at(1)).unwrap();
    assert_eq!(audit.append(Vec::new(), at(2)).unwrap(), []);
    let all: Vec<_> = first.into_iter().chain(more).collect();
    assert_eq!(ground.records(), all);
    assert_eq!(all.iter().map(|record| record.seq).collect::<Vec<_>>(), [1, 2, 3]);
    let head = ChainHead { seq: 3, hash: all[2].hash.clone() };
    assert_eq!(ground.anchored(), head.to_string());
    assert_eq!(ground.verified(), AuditVerification::Whole { head, unanchored: 0, torn: 0 });
}

#[test]
fn the_files_are_for_the_user_alone() {
    let ground = Ground::new();
    ground.append(1);
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let file = ground.layout.audit_file();
    assert_eq!(mode(&file), 0o600);
    assert_eq!(mode(&ground.layout.audit_lock()), 0o600);
    assert_eq!(mode(file.parent().unwrap()), 0o700);
}

#[test]
fn many_threads_make_one_chain() {
    const THREADS: u64 = 6;
    const APPENDS: u64 = 5;
    let ground = Ground::new();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let ground = &ground;
            scope.spawn(move || {
                let audit = ground.audit();
                for number in 0..APPENDS {
                    let number = thread * 100 + number;
                    audit.append(vec![said(number), said(number + 50)], at(0)).unwrap();
                }
            });
        }
    });
    let records = THREADS * APPENDS * 2;
    let head = ChainHead { seq: records, hash: ground.records().last().unwrap().hash.clone() };
    assert_eq!(ground.verified(), AuditVerification::Whole { head, unanchored: 0, torn: 0 });
}

#[test]
fn many_processes_make_one_chain() {
    if let Some(directory) = process::in_child() {
        let audit = Ground::at(&directory).audit();
        for number in 0..6 {
            audit.append(vec![said(number)], at(0)).unwrap();
        }
        return;
    }
    let ground = Ground::new();
    let start = || {
        let name = "store::audit::tests::many_processes_make_one_chain";
        process::child(name, "exec \"$@\"", &ground.directory).spawn().unwrap()
    };
    for child in [start(), start(), start()] {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let head = ChainHead { seq: 18, hash: ground.records().last().unwrap().hash.clone() };
    assert_eq!(ground.verified(), AuditVerification::Whole { head, unanchored: 0, torn: 0 });
}

#[test]
fn a_second_home_has_a_trail_of_its_own() {
    let ground = Ground::new();
    ground.append(1);
    let other = ground.other_home();
    assert_ne!(anchor_ref(&other.layout), anchor_ref(&ground.layout));
    other.append(1);
    other.append(2);
    assert_eq!((ground.records().len(), other.records().len()), (1, 2));
    for verified in [ground.verified(), other.verified()] {
        assert!(matches!(verified, AuditVerification::Whole { unanchored: 0, .. }), "{verified:?}");
    }
}

#[test]
fn a_full_disk_is_an_error_and_takes_nothing_with_it() {
    if let Some(directory) = process::in_child() {
        let audit = Ground::at(&directory).audit();
        let mut long = said(2);
        long.reason = Some("x".repeat(100_000));
        let error = audit.append(vec![long], at(0)).unwrap_err();
        assert!(error.is_disk_full(), "{error:?}");
        audit.append(vec![said(3)], at(0)).unwrap();
        return;
    }
    let ground = Ground::new();
    ground.append(1);
    let name = "store::audit::tests::a_full_disk_is_an_error_and_takes_nothing_with_it";
    process::run_child(name, "trap '' XFSZ; ulimit -f 16; exec \"$@\"", &ground.directory);
    let entries: Vec<_> = ground.records().into_iter().map(|record| record.said.entry).collect();
    assert_eq!(entries, ["item-001", "item-003"]);
    assert!(matches!(ground.verified(), AuditVerification::Whole { unanchored: 0, torn: 0, .. }));
}

#[test]
fn a_record_that_no_reader_would_take_is_not_written() {
    let ground = Ground::new();
    let mut long = said(1);
    long.reason = Some("\u{1}".repeat(200_000));
    let error = ground.audit().append(vec![long], at(0)).unwrap_err();
    // How long it is depends on the names of the user and the machine.
    let said = error.to_string();
    assert!(said.ends_with("is too long for the audit trail, which takes 1048576"), "{said}");
    assert_eq!(ground.records(), []);
    ground.append(1);
    assert_eq!(ground.records().len(), 1);
}

#[test]
fn something_else_in_the_place_of_the_file_is_an_error() {
    let ground = Ground::new();
    let audit = ground.audit();
    fs::create_dir(ground.layout.audit_file()).unwrap();
    let error = audit.append(vec![said(1)], at(0)).unwrap_err();
    insta::assert_snapshot!(ground.show(&error), @"`$ROOT/home/audit/repo/audit.jsonl` is not a regular file");
    assert!(matches!(verify_trail(&ground.layout, &ground.repo), Err(Error::Store(_))));
    assert!(read_trail(&ground.layout).is_err());
}

#[test]
fn a_head_that_cannot_be_anchored_is_an_error_and_the_next_append_goes_on() {
    let ground = Ground::new();
    ground.append(1);
    let lock = ground.repo.common_dir().join(format!("{}.lock", anchor_ref(&ground.layout)));
    fs::File::create_new(&lock).unwrap();
    let error = ground.audit().append(vec![said(2)], at(0)).unwrap_err();
    assert!(matches!(error, Error::Anchor(_)), "{error:?}");
    let verified = ground.verified();
    assert!(
        matches!(verified, AuditVerification::Whole { unanchored: 1, torn: 0, .. }),
        "{verified:?}"
    );
    fs::remove_file(&lock).unwrap();
    ground.append(3);
    let entries: Vec<_> = ground.records().into_iter().map(|record| record.said.entry).collect();
    assert_eq!(entries, ["item-001", "item-002", "item-003"]);
    let verified = ground.verified();
    assert!(
        matches!(verified, AuditVerification::Whole { unanchored: 0, torn: 0, .. }),
        "{verified:?}"
    );
}
