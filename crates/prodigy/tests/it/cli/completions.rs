//! `prodigy completions` and `prodigy man`: what is made from the command line.

use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
};

use prodigy_testkit::TestEnv;

fn world() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_prodigy"))
}

#[test]
fn every_shell_has_a_script_that_keeps_hidden_commands_hidden() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let seen = world().prodigy(&["completions", shell]);
        assert_eq!(seen.code, Some(0), "{seen}");
        assert!(seen.stdout.contains("completions"), "{shell}");
        assert_eq!(hidden(&seen.stdout), [""; 0], "{shell}");
    }
}

/// Returns the lines of a text that name a hidden command.
fn hidden(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.contains("supervise")).collect()
}

#[test]
fn bash_completes_commands_and_options() {
    let world = world();
    let script = world.prodigy(&["completions", "bash"]).stdout;
    let complete = |words: &str, last: usize| {
        let asked = format!(
            "{script}\nCOMP_WORDS=({words}); COMP_CWORD={last}; COMPREPLY=()\n\
             _prodigy prodigy \"${{COMP_WORDS[{last}]}}\" \"${{COMP_WORDS[{last}-1]}}\"\n\
             printf '%s ' \"${{COMPREPLY[@]}}\"\n"
        );
        let mut shell: Command = world.command("bash");
        let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(asked.as_bytes()).unwrap();
        world.to_output(&child.wait_with_output().unwrap()).to_string()
    };
    insta::assert_snapshot!(complete("prodigy comp", 1), @"completions");
    insta::assert_snapshot!(complete("prodigy config show --", 3), @"--origin --json --home --help");
    insta::assert_snapshot!(complete("prodigy completions ''", 2), @"-h --home --help bash elvish fish powershell zsh");
}

#[test]
fn an_unknown_shell_is_refused() {
    insta::assert_snapshot!(world().prodigy(&["completions", "tcsh"]), @"
    ----- stderr -----
    error: invalid value 'tcsh' for '<SHELL>'
      [possible values: bash, elvish, fish, powershell, zsh]

      tip: a similar value exists: 'zsh'

    For more information, try '--help'.
    [exit 2]
    ");
}

#[test]
fn the_manual_is_printed_or_written_page_by_page() {
    let world = world();
    let page = world.prodigy(&["man"]);
    assert!(page.stdout.contains(".TH prodigy 1"), "{page}");
    assert_eq!(hidden(&page.stdout), [""; 0]);
    insta::assert_snapshot!(world.prodigy(&["man", "--dir", "pages"]), @"
    ----- stderr -----
    wrote the manual pages to `pages`
    ");
    let mut names: Vec<String> = fs::read_dir(world.root().join("pages"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for name in ["prodigy.1", "prodigy-config.1", "prodigy-config-show.1", "prodigy-init.1"] {
        assert!(names.iter().any(|found| found == name), "{name} in {names:?}");
    }
    assert_eq!(hidden(&names.join("\n")), [""; 0]);
}
