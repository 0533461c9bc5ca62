//! The files that a user names for something to be written to.

use std::{
    fs,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    thread,
};

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::fixture::{
    map_job::{assert_code, go, map_world},
    workflow::stable,
};

/// Makes a world with a finished job, one of whose two items is a dead letter.
fn finished() -> TestEnv {
    let world = unfinished();
    assert_code(&go(&world), 0);
    world
}

fn unfinished() -> TestEnv {
    map_world(
        "map:\n  input: { items: [a, b] }\n  agent_template:\n    - shell: echo >> ROOT/ran; test ${item} = a\n",
    )
}

/// Returns each command that writes to a file, and a part of what it writes.
fn commands(file: &Path) -> Vec<(Vec<String>, &'static str)> {
    let file = file.to_str().unwrap();
    let commands = [
        (vec!["resume", "job", "--junit"], "<testsuites>"),
        (vec!["dlq", "export", "job", "--output"], "item-002"),
        (vec!["events", "export", "job", "--output"], "job_started"),
        (vec!["dlq", "status", "--prometheus"], "# HELP"),
    ];
    let named = |words: Vec<&str>| words.into_iter().chain([file]).map(str::to_owned).collect();
    commands.into_iter().map(|(words, part)| (named(words), part)).collect()
}

#[track_caller]
fn run(world: &TestEnv, words: &[String]) {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    assert_code(&world.prodigy(&words), 0);
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Makes an empty directory beside the repository.
fn directory(world: &TestEnv, name: &str) -> PathBuf {
    let directory = world.root().join(name);
    fs::create_dir(&directory).unwrap();
    directory
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn links_are_followed() {
    let world = finished();
    let (here, there) = (directory(&world, "here"), directory(&world, "there"));
    let (link, target) = (here.join("link"), there.join("target"));
    symlink("../there/target", &link).unwrap();
    // The first finds nothing at the end of the link, the others a file.
    for (words, part) in commands(&link) {
        run(&world, &words);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "{words:?}");
        assert!(fs::read_to_string(&target).unwrap().contains(part), "{words:?}");
    }
    assert_eq!((names(&here), names(&there)), (vec!["link".into()], vec!["target".into()]));
}

#[test]
fn a_fifo_is_written_in_place() {
    let world = finished();
    let fifo = world.root().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let before = fs::metadata(&fifo).unwrap().ino();
    for (words, part) in commands(&fifo) {
        let path = fifo.clone();
        let reader = thread::spawn(move || fs::read_to_string(path).unwrap());
        run(&world, &words);
        assert!(reader.join().unwrap().contains(part), "{words:?}");
        let metadata = fs::metadata(&fifo).unwrap();
        assert!(metadata.file_type().is_fifo(), "{words:?}");
        assert_eq!(metadata.ino(), before, "{words:?}");
    }
}

#[test]
fn a_file_keeps_its_mode() {
    let world = finished();
    let place = directory(&world, "place");
    let file = place.join("file");
    for wanted in [0o640, 0o666, 0o600] {
        for (words, part) in commands(&file) {
            fs::write(&file, "old").unwrap();
            set_mode(&file, wanted);
            run(&world, &words);
            assert_eq!(mode(&file), wanted, "{words:?}");
            assert!(fs::read_to_string(&file).unwrap().contains(part), "{words:?}");
        }
    }
    assert_eq!(names(&place), ["file"]);
}

#[test]
fn a_new_file_has_the_mode_of_the_umask() {
    let world = finished();
    let place = directory(&world, "place");
    let plain = place.join("plain");
    fs::write(&plain, "").unwrap();
    for (words, _) in commands(&place.join("file")) {
        run(&world, &words);
        assert_eq!(mode(&place.join("file")), mode(&plain), "{words:?}");
        fs::remove_file(place.join("file")).unwrap();
    }
}

#[test]
fn standard_output_can_be_named() {
    let world = finished();
    for (words, part) in commands(Path::new("/dev/stdout")) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let seen = world.prodigy(&words);
        assert_code(&seen, 0);
        assert!(seen.stdout.contains(part), "{seen}");
    }
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_anything_runs() {
    let world = unfinished();
    let file = world.root().join("file");
    fs::write(&file, "").unwrap();
    let beyond = file.join("report.xml");
    let root = world.root().to_owned();
    symlink("loop", root.join("loop")).unwrap();
    let run = ["run", "workflow.yml", "-y", "--job-id", "job"];
    let batch = ["batch", "*", "-c", "true", "-y", "--job-id", "job"];
    for (command, path) in [
        (&run[..], root.join("nowhere/report.xml")),
        (&run, beyond.clone()),
        (&run, root.join("loop")),
        (&run, root.clone()),
        (&batch, beyond),
    ] {
        let junit = ["--junit", path.to_str().unwrap()];
        let seen = world.prodigy(&[command, &junit].concat());
        assert_code(&seen, 2);
        assert!(seen.stderr.contains("error: cannot write `"), "{seen}");
        assert!(!world.home().join("events/repo/job").exists(), "{seen}");
    }
    let path = root.join("nowhere/report.xml");
    let junit = ["--junit", path.to_str().unwrap()];
    let seen = world.prodigy(&[&run, &junit[..]].concat());
    assert_snapshot!(stable(&seen), @"
    ----- stderr -----
    error: cannot write `$ROOT/nowhere/report.xml`
      caused by: No such file or directory (os error 2)

    hint: nothing was done; name a file that can be written
    [exit 2]
    ");
    assert!(!root.join("ran").exists());
}

#[test]
fn a_retry_refuses_a_report_that_cannot_be_written() {
    let world = finished();
    let before = fs::read_to_string(world.root().join("ran")).unwrap();
    let args = ["dlq", "retry", "job", "-y", "--junit", "/nowhere/report.xml"];
    assert_code(&world.prodigy(&args), 2);
    assert_eq!(fs::read_to_string(world.root().join("ran")).unwrap(), before);
}

#[test]
fn an_export_that_fails_leaves_the_file_as_it_was() {
    let world = finished();
    let file = world.root().join("file");
    fs::write(&file, "old").unwrap();
    let output = ["--output", file.to_str().unwrap()];
    let journal = world.home().join("events/repo/job");
    let journal = journal.join(&names(&journal)[0]);
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replacen("agent_started", "agent_startled", 1)).unwrap();
    let seen = world.prodigy(&[&["events", "export", "job"], &output[..]].concat());
    assert_code(&seen, 1);
    assert_eq!(fs::read_to_string(&file).unwrap(), "old", "{seen}");
}
