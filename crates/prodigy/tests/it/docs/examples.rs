//! The examples, run as a newcomer runs them.

use std::{fs, path::Path, process::Stdio};

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use regex::Regex;

use crate::fixture::workflow::stable;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");

/// Runs an example in a world of its own and returns what a person sees, both streams together.
fn run(name: &str) -> String {
    let world = TestEnv::new(env!("CARGO_BIN_EXE_prodigy"));
    let printed = world.root().join("printed");
    let file = fs::File::create(&printed).unwrap();
    let output = world
        .command(Path::new(EXAMPLES).join(name).join("run"))
        .env("PRODIGY", env!("CARGO_BIN_EXE_prodigy"))
        .env("TMPDIR", world.root())
        .stdout(file.try_clone().unwrap())
        .stderr(Stdio::from(file))
        .output()
        .unwrap();
    let mut seen = world.to_output(&output);
    let root = world.root().canonicalize().unwrap();
    seen.stdout = fs::read_to_string(&printed).unwrap();
    let text = stable(&seen)
        .replace(&*root.to_string_lossy(), "$ROOT")
        .replace(env!("CARGO_BIN_EXE_prodigy"), "$PRODIGY");
    let rules = [
        (r"\bworkflow-\d{8}-\d{6}-[a-z0-9]{4}\b", "[job]"),
        (r"(?m)^[0-9a-f]{7} ", "[commit] "),
        (r"(prodigy-\w+)\.\w{6}", "$1.[new]"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "[second]"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "[when]"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d", "[minute]        "),
        (r"(?m)^merged      [0-9a-f]{40}", "merged      [commit]"),
        (r"(?m)^commit       [0-9a-f]{10}$", "commit       [commit]"),
        (r"sha256:[0-9a-f]{64}", "[digest]"),
        (r"\b[0-9a-f]{64}\b", "[hash]"),
        // How wide the column is depends on how long it took.
        (r"TOOK +REASON", "TOOK  REASON"),
        (r"\[minute\]          \[time\] +", "[minute]          [time]  "),
        // Two failures of one cause may lie in different seconds.
        (r"(?m)^(  seen +\[second\]) to \[second\]", "$1"),
    ];
    rules.iter().fold(text, |text, (pattern, instead)| {
        Regex::new(pattern).unwrap().replace_all(&text, *instead).into_owned()
    })
}

#[test]
fn every_example_is_run_here() {
    let mut names: Vec<_> = fs::read_dir(EXAMPLES)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["dlq", "governance", "mapreduce", "quickstart"]);
}

#[test]
fn the_quickstart_shows_a_newcomer_what_happened() {
    assert_snapshot!(run("quickstart"), @r#"
        $ prodigy run workflow.yml -y
        · job [job] · quickstart · 4 steps
        ✓ 1 choose the languages  [time]
        ✗ 2.foreach.2.1 claude: Say hello in Spanish: simulated error; attempt 2 follows
        ✓ 2 translate  [time]
        ✓ 3 check that none is missing  [time]
        ✓ 4 write a report  [time]

        completed · 4 of 4 steps · cost $0.04
        merged into main at [commit]
        next: prodigy events [job]

        $ git log --oneline
        [commit] write a report
        [commit] Say hello in Polish
        [commit] Say hello in Spanish
        [commit] Say hello in French
        [commit] Add the workflow

        $ cat greetings.txt report.md
        Bonjour
        Hola
        Cześć
        # Report

        3 greetings in 3 commits: ["French","Spanish","Polish"]

        Look around:
          cd $ROOT/prodigy-quickstart.[new]/hello
          export PRODIGY_HOME=$ROOT/home
          alias prodigy='$PRODIGY'
          prodigy events      # what happened
          prodigy logs        # what each step printed
        Throw it away: rm -rf $ROOT/prodigy-quickstart.[new]
        "#);
}

/// Sorts lines about items that follow each other: items end in any order.
fn with_items_in_order(text: &str) -> String {
    let is_item =
        |line: &str| line.split_once(' ').is_some_and(|(_, rest)| rest.starts_with("the-"));
    let mut lines: Vec<&str> = text.lines().collect();
    for run in lines.chunk_by_mut(|one, next| is_item(one) && is_item(next)) {
        run.sort_unstable();
    }
    lines.join("\n")
}

#[test]
fn the_example_of_many_items_retries_one_and_sets_one_aside() {
    assert_snapshot!(with_items_in_order(&run("mapreduce")), @"
        $ prodigy run workflow.yml -y --job-id summaries
        · job summaries · summaries · mapreduce
        ✓ setup.1 list the chapters  [time]
        · 3 items
        ~ the-storm at step 1: simulated error; attempt 2 follows
        ~ the-wreck at step 1: the step made no commit, and `commit_required` is set; attempt 2 follows
        ~ the-wreck at step 1: the step made no commit, and `commit_required` is set; attempt 3 follows
        ✓ the-storm  [time] · 1 commit
        ✓ the-voyage  [time] · 1 commit
        ✗ the-wreck at step 1: the step made no commit, and `commit_required` is set; in the DLQ after 3 attempts
        ~ map: 2/3 done · 1 failed · 1 in DLQ  [time]
        ✓ reduce.1 write a report  [time]

        completed with failures · 2 of 3 items done · [time] · cost $0.06
        items: 2 successful, 1 in the DLQ, 2 tried more than once
        failures:
          no_commit: the step made no commit, and `commit_required` is set  the-wreck
        cost: $0.03 per completed item · $0.02 spent on failed attempts
        merged into main at [commit]
        dead letters: $ROOT/home/dlq/book/summaries/mapreduce/dlq/summaries/items
        next: prodigy dlq show summaries

        $ cat report.md
        # Summaries

        2 of 3 chapters have a summary; failed: 1
        the-storm: 7 words, attempts: 2
        the-voyage: 6 words, attempts: 1
        the-wreck: the step made no commit, and `commit_required` is set

        Look around:
          cd $ROOT/prodigy-mapreduce.[new]/book
          export PRODIGY_HOME=$ROOT/home
          alias prodigy='$PRODIGY'
          prodigy jobs show summaries                # the job in short
          prodigy events summaries --item the-storm  # what happened to one item
          prodigy logs summaries the-wreck           # what it printed, attempt by attempt
        Throw it away: rm -rf $ROOT/prodigy-mapreduce.[new]
        ");
}

#[test]
#[expect(clippy::too_many_lines, reason = "it is all that a person sees")]
fn the_example_of_dead_letters_replays_what_can_be_and_drops_the_rest() {
    assert_snapshot!(run("dlq"), @r#"
        $ prodigy run workflow.yml -y --job-id migrate
        · job migrate · migrate · mapreduce
        · 5 items
        ✓ catalog  [time] · 1 commit
        ✓ search  [time] · 1 commit
        ~ map: 2/5 done · 3 failed · 3 in DLQ  [time]
        ✓ reduce.1 write_file: report.md  [time]

        completed with failures · 2 of 5 items done · [time] · cost $0.06
        items: 2 successful, 3 in the DLQ
        failures:
          network_error: `look the schema up` failed with exit code 7: curl: (7) Failed to connect to schemas.internal port 443: Connection refused  billing, ledger
          schema_invalid: `check the name` failed with exit code 1: error: a module's name has no spaces  legacy-code.f0d06a3fa1c56637d8bca16b35513130
        cost: $0.03 per completed item
        merged into main at [commit]
        dead letters: $ROOT/home/dlq/shop/migrate/mapreduce/dlq/migrate/items
        next: prodigy dlq show migrate

        $ prodigy dlq list migrate
        ITEM                                          REASON          REPLAY      TRIES  LAST FAILURE      CAUSE
        legacy-code.f0d06a3fa1c56637d8bca16b35513130  schema_invalid  quarantine  1      [minute]          check the name failed with exit code <n>: error: a module's name has no spaces
        ledger                                        network_error   yes         1      [minute]          look the schema up failed with exit code <n>: curl: (<n>) Failed to connect to <host> port <n>: Connection refused
        billing                                       network_error   yes         1      [minute]          look the schema up failed with exit code <n>: curl: (<n>) Failed to connect to <host> port <n>: Connection refused

        next:
          see one   prodigy dlq show migrate legacy-code.f0d06a3fa1c56637d8bca16b35513130
          by cause  prodigy dlq analyze migrate

        $ prodigy dlq show migrate billing
        item        billing of job migrate
        status      open
        reason      network_error (transient)
        message     `look the schema up` failed with exit code 7: curl: (7) Failed to connect to schemas.internal port 443: Connection refused
        cause       NetworkError::look the schema up failed with exit code <n>: curl: (<n>) Failed to connect to <host> port <n>: Connection refused [4d1801999deb1478]
        where       step map.2 look the schema up, attempt 1, agent-1, exit code 7
        failed      once, from [second] to [second]
        replay      it can be replayed
        because     rule `built-in:network_error` says auto_replay
        to do       check that what it needs can be reached; then replay

        last lines of output
          curl: (7) Failed to connect to schemas.internal port 443: Connection refused

        attempts
          #  ENDED             TOOK  REASON         MESSAGE
          1  [minute]          [time]  network_error  `look the schema up` failed with exit code 7: curl: (7) Failed to connect to schemas.internal port 443: Connection refused

        item
          "billing"

        artifacts
          log       $ROOT/home/logs/shop/migrate/billing/attempt-1.err

        next:
          try it again    prodigy dlq retry migrate billing
          all its output  prodigy logs migrate billing
          discard         prodigy dlq drop migrate billing --reason TEXT

        $ prodigy dlq analyze migrate
        2 causes: 3 open, 2 of them can be replayed

        2 × network_error (transient)
          cause      NetworkError::look the schema up failed with exit code <n>: curl: (<n>) Failed to connect to <host> port <n>: Connection refused
          seen       [second], 2 in the last hour
          example    prodigy dlq show migrate ledger
          to do      check that what it needs can be reached; then replay
          replay     they can be replayed as they are
          next       prodigy dlq retry migrate --signature 4d1801999deb1478

        1 × schema_invalid (poison)
          cause      ValidationFailed::check the name failed with exit code <n>: error: a module's name has no spaces
          seen       [second], 1 in the last hour
          example    prodigy dlq show migrate legacy-code.f0d06a3fa1c56637d8bca16b35513130
          to do      look at what was produced and at the format that is asked for
          replay     it cannot be replayed as it is
          next       prodigy dlq list migrate --signature c92dc9299590eeea

        # The service is up again:
        $ prodigy dlq retry migrate --rerun-reduce
        not replayed: 1 entry: legacy-code.f0d06a3fa1c56637d8bca16b35513130: quarantined until changed or released
          rule `built-in:schema_invalid` says quarantine; nothing changed since it failed
          then: prodigy dlq edit migrate legacy-code.f0d06a3fa1c56637d8bca16b35513130 --set FIELD=VALUE --reason TEXT
        · job migrate resumed · 2 of 5 items done
        ✓ billing  [time] · 1 commit
        ✓ ledger  [time] · 1 commit
        ~ map: 4/5 done · 1 failed · 1 in DLQ  [time]
        ✓ reduce.1 write_file: report.md  [time]

        completed with failures · [time] · cost $0.06
        replayed: 2 resolved, 0 back in the DLQ
        job: 4 successful, 1 in the DLQ, 2 tried more than once
        cost: $0.03 per completed item
        merged into main at [commit]
        dead letters: $ROOT/home/dlq/shop/migrate/mapreduce/dlq/migrate/items
        next: prodigy dlq show migrate

        # The other one will never be a module:
        $ prodigy dlq drop migrate legacy code --reason there is no such module
        dropped  legacy-code.f0d06a3fa1c56637d8bca16b35513130

        $ prodigy jobs show migrate
        job         migrate
        status      completed with failures
        workflow    migrate
        repository  $ROOT/prodigy-dlq.[new]/shop
        steps       1 of 1 done
        items       4 of 5 done, 1 left out
        failures    1 × ValidationFailed
        started     [second]
        last event  [second]
        took        [time]
        resumed     once
        cost        $0.12 · $0.03 per completed item
        branch      prodigy/migrate/job
        merged      [commit] into main

        $ cat report.md
        4 of 5 modules are migrated

        Look around:
          cd $ROOT/prodigy-dlq.[new]/shop
          export PRODIGY_HOME=$ROOT/home
          alias prodigy='$PRODIGY'
          prodigy dlq list migrate --all      # what became of each entry
          prodigy events migrate --item billing
        Throw it away: rm -rf $ROOT/prodigy-dlq.[new]
        "#);
}

#[test]
#[expect(clippy::too_many_lines, reason = "it is all that a person sees")]
fn the_example_of_governed_replay_announces_everything_once() {
    assert_snapshot!(run("governance"), @r#"
    $ prodigy policy test
    ok      a slot that was not free is tried again, twice
    ok      case 2
    ok      nothing that may have happened is done again by a rule
    ok      a denied change needs somebody who agrees
    4 cases: 4 ok, 0 failed

    $ prodigy run workflow.yml -y --job-id rollout
    · job rollout · rollout · mapreduce
    · 5 items
    ✓ api  [time] · 1 commit
    ~ map: 1/5 done · 4 failed · 4 in DLQ  [time]
    ✓ reduce.1 write_file: report.md  [time]

    completed with failures · 1 of 5 items done · [time] · cost $0.15
    items: 1 successful, 4 in the DLQ
    failures:
      denied: `ask for leave` failed with exit code 1: error: changes of search need an agreement  search
      effect_check_failed: still running after [time]; its check cannot tell whether the change was made: exit code 3  web
      max_scheduling_retries: `ask for leave` failed with exit code 1: error: no slot was free (attempts=50)  billing
      schema_invalid: `ask for leave` failed with exit code 1: error: the forge knows no project of that name  docs
    cost: $0.15 per completed item · $0.12 spent on failed attempts
    merged into main at [commit]
    kept: $ROOT/home/worktrees/shop/rollout/billing
    kept: $ROOT/home/worktrees/shop/rollout/docs
    kept: $ROOT/home/worktrees/shop/rollout/search
    kept: $ROOT/home/worktrees/shop/rollout/web
    dead letters: $ROOT/home/dlq/shop/rollout/mapreduce/dlq/rollout/items
    next: prodigy dlq show rollout

    $ prodigy dlq plan rollout
    review     web  rule `built-in:effect_check_failed` says manual_review; something outside may have been changed, and looking gave no answer
    approval   search  rule `rule 3` says require_approval; 0 of 1 approvals by `platform-governance`
    quarantine docs  rule `rule 2` says quarantine; nothing changed since it failed
    replay     billing  rule `rule 1` says auto_replay

    replay     1 entry by rule `rule 1`
    approval   1 entry by rule `rule 3`
               then: prodigy dlq retry rollout search  (asks for it)
    review     1 entry by rule `built-in:effect_check_failed`
               then: prodigy dlq check rollout web
    quarantine 1 entry by rule `rule 2`
               then: prodigy dlq edit rollout docs --set FIELD=VALUE --reason TEXT
    nothing was changed

    # The forge answers again. What the policy allows is replayed, and nothing else:
    $ prodigy dlq retry rollout
    not replayed: 1 entry: search: needs approval
      rule `rule 3` says require_approval; 0 of 1 approvals by `platform-governance`
      then: prodigy dlq approvals rollout
    not replayed: 1 entry: web: needs manual review
      rule `built-in:effect_check_failed` says manual_review; something outside may have been changed, and looking gave no answer
      then: prodigy dlq check rollout web
    not replayed: 1 entry: docs: quarantined until changed or released
      rule `rule 2` says quarantine; nothing changed since it failed
      then: prodigy dlq edit rollout docs --set FIELD=VALUE --reason TEXT
    search waits for 1 approval by `platform-governance`, until [second]
      then: prodigy dlq approve rollout search --expect [digest]
    · job rollout resumed · 1 of 5 items done
    ✓ billing  [time] · 1 commit
    ~ map: 2/5 done · 3 failed · 3 in DLQ  [time]

    completed with failures · [time] · cost $0.03
    replayed: 1 resolved, 0 back in the DLQ
    job: 2 successful, 3 in the DLQ, 1 tried more than once
    cost: $0.03 per completed item
    merged into main at [commit]
    dead letters: $ROOT/home/dlq/shop/rollout/mapreduce/dlq/rollout/items
    next: prodigy dlq show rollout

    $ prodigy dlq approvals rollout
    item         search
    state        pending: 0 of 1 approvals
    action       replay (replay 1)
    failed with  denied: `ask for leave` failed with exit code 1: error: changes of search need an agreement
    why          rule `rule 3` says require_approval; 0 of 1 approvals by `platform-governance`
    data         "search"
    commit       [commit]
    asked by     bob@example.com, [second]
    until        [second]
    digest       [digest]
    next         prodigy dlq approve rollout search --expect [digest]

    # Alice is in the group that may agree, and she agrees to exactly what she was shown:
    $ prodigy dlq approve rollout search --expect [digest]
    item         search
    state        pending: 0 of 1 approvals
    action       replay (replay 1)
    failed with  denied: `ask for leave` failed with exit code 1: error: changes of search need an agreement
    why          rule `rule 3` says require_approval; 0 of 1 approvals by `platform-governance`
    data         "search"
    commit       [commit]
    asked by     bob@example.com, [second]
    until        [second]
    digest       [digest]
    approved  search as alice@example.com (asserted)

    it can be replayed once, until [second]
    next, for bob@example.com: prodigy dlq retry rollout search

    $ prodigy dlq retry rollout search
    · job rollout resumed · 2 of 5 items done
    ✓ search  [time] · 1 commit
    ~ map: 3/5 done · 2 failed · 2 in DLQ  [time]

    completed with failures · [time] · cost $0.03
    replayed: 1 resolved, 0 back in the DLQ
    job: 3 successful, 2 in the DLQ, 2 tried more than once
    cost: $0.03 per completed item
    merged into main at [commit]
    dead letters: $ROOT/home/dlq/shop/rollout/mapreduce/dlq/rollout/items
    next: prodigy dlq show rollout

    # Nobody knows whether the request of web is open. So prodigy looks, and Bob adopts it:
    $ prodigy dlq check rollout web
    web
      rollout:web:open-pr  open-pr
        unknown → made: found in the forge
      next: prodigy dlq retry rollout --force web --reason TEXT

    $ prodigy dlq adopt rollout web --reason the request is open
    adopted  web

    # The docs have another name in the forge:
    $ prodigy dlq edit rollout docs --data "handbook" --reason the project was renamed
    edited  docs

    $ prodigy dlq retry rollout docs --rerun-reduce
    · job rollout resumed · 4 of 5 items done
    ✓ docs  [time] · 1 commit
    ✓ map: 5/5 done  [time]
    ✓ reduce.1 write_file: report.md  [time]

    completed · [time] · cost $0.03
    replayed: 1 resolved, 0 back in the DLQ
    job: 5 successful, 3 tried more than once
    cost: $0.03 per completed item
    merged into main at [commit]
    next: prodigy events rollout

    $ cat report.md; sort $FORGE/requests | uniq -c
    5 of 5 changes are announced
          1 rollout:api:open-pr
          1 rollout:billing:open-pr
          1 rollout:docs:open-pr
          1 rollout:search:open-pr
          1 rollout:web:open-pr

    $ prodigy audit show
    NO  TIME                 ACTOR              IDENTITY  ACTION            OUTCOME   JOB      ITEM     WHY
    1   [when]  bob@example.com    asserted  replay            denied    rollout  1 item   review by built-in:effect_check_failed
    2   [when]  bob@example.com    asserted  replay            denied    rollout  1 item   quarantine by rule 2
    3   [when]  bob@example.com    asserted  request_approval  intended  rollout  search   approval by rule 3
    4   [when]  bob@example.com    asserted  request_approval  done      rollout  search   approval by rule 3
    5   [when]  bob@example.com    asserted  replay            intended  rollout  billing  replay by rule 1
    6   [when]  bob@example.com    asserted  replay            done      rollout  billing  replay by rule 1
    7   [when]  alice@example.com  asserted  approve           intended  rollout  search   approval by rule 3
    8   [when]  alice@example.com  asserted  approve           done      rollout  search   approval by rule 3
    9   [when]  bob@example.com    asserted  replay            intended  rollout  search   replay by rule 3
    10  [when]  bob@example.com    asserted  replay            done      rollout  search   replay by rule 3
    11  [when]  bob@example.com    asserted  check             intended  rollout  web
    12  [when]  bob@example.com    asserted  check             done      rollout  web
    13  [when]  bob@example.com    asserted  adopt             intended  rollout  web      the request is open
    14  [when]  bob@example.com    asserted  adopt             done      rollout  web      the request is open
    15  [when]  bob@example.com    asserted  edit              intended  rollout  docs     the project was renamed
    16  [when]  bob@example.com    asserted  edit              done      rollout  docs     the project was renamed
    17  [when]  bob@example.com    asserted  replay            intended  rollout  docs     replay by rule 2
    18  [when]  bob@example.com    asserted  replay            done      rollout  docs     replay by rule 2

    $ prodigy audit verify
    ok: 18 records, the last one is [hash]

    Look around:
      cd $ROOT/prodigy-governance.[new]/shop
      export PRODIGY_HOME=$ROOT/home FORGE=$ROOT/prodigy-governance.[new]/forge
      alias prodigy='$PRODIGY'
      prodigy policy explain rollout docs
      prodigy dlq drill                     # what must never go wrong, rehearsed
    Throw it away: rm -rf $ROOT/prodigy-governance.[new]
    "#);
}
