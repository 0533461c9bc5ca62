//! Resolutions of conflicts that keep the work of one side only.

use insta::assert_snapshot;

use crate::{
    fixture::map_job::{assert_code, counts, go, letter, of_type},
    map::conflicts::scripted,
};

#[test]
fn a_resolution_that_drops_the_change_of_a_side_is_refused() {
    for (script, whose) in [
        ("git checkout --quiet --ours .; git commit --quiet --all --no-edit", "the job's"),
        ("git checkout --quiet --theirs .", "the item's"),
        (": >list", "both sides'"),
    ] {
        let world = scripted(script);
        let seen = go(&world);
        assert_code(&seen, 0);
        assert_eq!(counts(&world), (1, 1, 0), "{script}: {seen}");
        assert_eq!(world.read("list"), "first\n");
        assert_eq!(world.git(&["log", "-1", "--format=%s", "prodigy/job/second"]), "second");
        let told = of_type(&world, "resolution_failed");
        let message = told[0]["failure"]["message"].as_str().unwrap();
        assert_eq!(message, format!("{whose} changes of `list` are gone"), "{script}");
        let reason = letter(&world, "second")["reason"].to_string();
        assert!(reason.contains("are gone"), "{reason}");
    }
}

#[test]
fn a_side_that_has_the_lines_of_the_other_is_a_resolution() {
    // The item wrote the line of the job as well, before its own.
    let world = scripted("git checkout --quiet --ours .");
    let workflow = world.read("workflow.yml");
    world.write(
        "workflow.yml",
        workflow.replace("echo second > list", "printf 'first\\nsecond\\n' > list"),
    );
    world.commit_all("Write both lines");
    assert_code(&go(&world), 0);
    assert_eq!(counts(&world), (2, 0, 0));
    assert_eq!(world.read("list"), "first\nsecond\n");
}

#[test]
fn where_only_one_side_can_be_kept_the_paths_are_told() {
    let world = scripted("git rm --quiet list; git commit --quiet --no-edit");
    let workflow = world.read("workflow.yml");
    world.write("list", "base\n");
    let workflow = workflow.replace("echo second > list; git add list;", "git rm --quiet list;");
    world.write("workflow.yml", workflow);
    world.commit_all("Let the item delete what the other changes");
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_eq!(counts(&world), (2, 0, 0), "{seen}");
    let told = of_type(&world, "agent_warned");
    let told: Vec<_> = told.iter().map(|it| format!("{} {}", it["step"], it["message"])).collect();
    assert_snapshot!(told.join("\n"), @r#""on_conflict" "the job's changes of `list` are gone""#);
}
