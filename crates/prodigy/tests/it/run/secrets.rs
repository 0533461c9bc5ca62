//! Secrets that are too long, and commands for secrets that do not end.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use insta::assert_snapshot;
use rustix::process::Signal;

use crate::{
    fixture::workflow::{SpawnedProdigy, run, world},
    process::eventually,
};

const WITH: &str = "secrets:\n  TOKEN: SOURCE\nsteps:\n  - shell: 'test -n \"$TOKEN\"'\n";

#[test]
fn a_secret_that_is_too_long_is_refused_by_its_name() {
    let begun = Instant::now();
    let refused = |source: &str| run(&world(&WITH.replace("SOURCE", source)));
    let long = refused(r#"{ command: 'head -c 300000 /dev/zero | tr "\0" x' }"#);
    assert_snapshot!(long, @"
    ----- stderr -----
    error: the secret `TOKEN` cannot be had: it is longer than 64 KiB; write it to a file that the steps read, and let the secret be the path of the file
    [exit 1]
    ");
    assert_eq!(refused("{ command: 'yes' }"), long);
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    let world = world(&WITH.replace("SOURCE", "{ file: token }"));
    world.write("token", "x".repeat(64 * 1024 + 1));
    world.commit_all("Add the secret");
    assert_eq!(run(&world), long);
    world.write("token", "x".repeat(64 * 1024));
    world.commit_all("Make it shorter");
    let seen = world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "shorter"]);
    assert_eq!(seen.code, Some(0), "{seen}");
}

#[test]
fn the_command_of_a_secret_ends_with_the_run() {
    let world =
        world(&WITH.replace(
            "SOURCE",
            "{ command: 'echo $$ > ../pid.new; mv ../pid.new ../pid; sleep 300' }",
        ));
    let pid = world.root().join("pid");
    let mut running =
        SpawnedProdigy::new(&world, &["run", "workflow.yml", "-y", "--job-id", "job"]);
    running.until(&world, "the command begins", || pid.exists());
    let process = format!("/proc/{}", fs::read_to_string(&pid).unwrap().trim());
    // Ctrl-C does the same, but who starts tests in the background has it ignored.
    running.signal(Signal::TERM);
    let seen = running.seen_within(&world, Duration::from_secs(20));
    assert_ne!(seen.code, Some(0), "{seen}");
    eventually("the command is gone", Duration::from_secs(20), || !Path::new(&process).exists());
}

/// A secret with everything that pages, programs and shells quote.
const QUOTED: &str = r#"k/3y&<s>"q'a $x\é?=z"#;

/// The secret as different writers spell it.
const SPELLINGS: &str = r#"raw             k/3y&<s>"q'a $x\é?=z
python quote    k/3y%26%3Cs%3E%22q%27a%20%24x%5C%C3%A9%3F%3Dz
lower quote     k/3y%26%3cs%3e%22q%27a%20%24x%5c%c3%a9%3f%3dz
quote_plus      k%2F3y%26%3Cs%3E%22q%27a+%24x%5C%C3%A9%3F%3Dz
go path         k%2F3y&%3Cs%3E%22q%27a%20$x%5C%C3%A9%3F=z
html.escape     k/3y&amp;&lt;s&gt;&quot;q&#x27;a $x\é?=z
jinja           k/3y&amp;&lt;s&gt;&#34;q&#39;a $x\é?=z
php             k/3y&amp;&lt;s&gt;&quot;q&#039;a $x\é?=z
xml             k/3y&amp;&lt;s&gt;&quot;q&apos;a $x\é?=z
xml, no quotes  k/3y&amp;&lt;s&gt;"q'a $x\é?=z
mustache        k&#x2F;3y&amp;&lt;s&gt;&quot;q&#39;a $x\é?=z
ascii           k/3y&amp;&lt;s&gt;&quot;q&#x27;a $x\&#233;?=z
decimal         k&#47;3y&#38;&#60;s&#62;&#34;q&#39;a&#32;&#36;x&#92;&#233;&#63;&#61;z
hexadecimal     k&#x2f;3y&#x26;&#x3c;s&#x3e;&#x22;q&#x27;a&#x20;&#x24;x&#x5c;&#xe9;&#x3f;&#x3d;z
repr            k/3y&<s>"q\'a $x\\é?=z
ascii()         k/3y&<s>"q\'a $x\\\xe9?=z
bytes           k/3y&<s>"q\'a $x\\\xc3\xa9?=z
shlex.quote     k/3y&<s>"q'"'"'a $x\é?=z
%q              k/3y\&\<s\>\"q\'a\ \$x\\é\?=z
@Q              k/3y&<s>"q'\''a $x\é?=z
declare -p      k/3y&<s>\"q'a \$x\\é?=z
ansi            k/3y&<s>"q\'a $x\\\303\251?=z
php json        k\/3y&<s>\"q'a $x\\\u00e9?=z
other           k/3y&<s>"q'a $x\e?=z
"#;

#[test]
fn secrets_are_masked_however_they_are_quoted() {
    let world = world("- shell: 'true'\n");
    let text = "\
secrets:
  TOKEN: { command: cat ROOT/token }
steps:
  - shell: cat ROOT/spellings
  - shell: dd bs=3 if=ROOT/spellings status=none
  - shell_program: bash
    shell: |
      printf '%q\\n' \"$TOKEN\"; declare -p TOKEN; echo \"${TOKEN@Q}\"; set -x; : \"$TOKEN\"
";
    world.write("workflow.yml", text.replace("ROOT", &world.root().display().to_string()));
    world.commit_all("Print it");
    fs::write(world.root().join("token"), QUOTED).unwrap();
    fs::write(world.root().join("spellings"), SPELLINGS).unwrap();
    let seen = run(&world);
    assert!(!seen.contains("[exit"), "{seen}");
    let read =
        |name: &str| fs::read_to_string(world.home().join("logs/repo/job/workflow").join(name));
    let (printed, traced) = (read("attempt-1.out").unwrap(), read("attempt-1.err").unwrap());
    let shown = |line: &&str| line.contains("3y");
    let shown: Vec<&str> = printed.lines().chain(traced.lines()).filter(shown).collect();
    // What is not the secret is left alone: once from each of the first two steps.
    assert_eq!(shown, [r#"other           k/3y&<s>"q'a $x\e?=z"#; 2]);
    assert_eq!(printed.matches("***").count(), 2 * 23 + 3, "{printed}");
    assert_eq!(traced.matches("***").count(), 1, "{traced}");
}
