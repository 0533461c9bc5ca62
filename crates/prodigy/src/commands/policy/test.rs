//! `prodigy policy test`.

use std::path::{Path, PathBuf};

use prodigy_core::replay::{
    ExpectedDecision, PolicyCase, ReplayAction, ReplayDecision, ReplayVerdict,
};
use prodigy_engine::clock;

use crate::{
    commands::policy::policy_file::{
        self, current_repo_root, exists, invalid_file_error, read_named_file, read_repo_file,
    },
    error::CliError,
    exit::Exit,
    progress::plural,
    render::console::Console,
};

/// Where the cases of a repository stand, from its root.
const CASES: &str = ".prodigy/replay-policy.test.yml";

/// Run the cases that a policy must decide rightly
///
/// A case is a dead letter and what must come out of it. The exit code is 0 if all come out
/// as expected, 1 if one does not, and 9 if a file is invalid. A file of cases looks like this:
///
///     cases:
///       - name: a push that was refused is looked for first
///         entry: { reason_code: push_rejected, commit_state: unknown, can_check: true }
///         expect: { verdict: check }
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct PolicyTestArgs {
    /// The file of cases [default: .prodigy/replay-policy.test.yml in the root of the repository]
    file: Option<PathBuf>,

    /// Test this policy file [default: that of the repository]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

pub(super) fn run(command: &PolicyTestArgs, out: &mut Console) -> Result<Exit, CliError> {
    let root = current_repo_root()?;
    let policy = match &command.policy {
        Some(path) => policy_file::read(path, out)?,
        None => policy_file::load(&root, out)?,
    };
    let cases = match &command.file {
        Some(path) => read(&path.to_string_lossy(), &read_named_file(path)?, out)?,
        None => read_own(&root.join(CASES), out)?,
    };
    let now = clock::now();
    let mut failed = 0;
    for case in &cases {
        let ruling = case.evaluate(&policy, now);
        if case.expected.matches(&ruling) {
            out.line(format_args!("ok      {}", case.name))?;
        } else {
            failed += 1;
            out.line(format_args!("FAILED  {}", case.name))?;
            explain(&case.expected, &ruling, out)?;
        }
    }
    let ok = cases.len() - failed;
    out.line(format_args!("{}: {ok} ok, {failed} failed", plural(cases.len(), "case")))?;
    Ok(if failed == 0 { Exit::Success } else { Exit::Failure })
}

/// Reads the cases of the repository.
fn read_own(path: &Path, out: &mut Console) -> Result<Vec<PolicyCase>, CliError> {
    if exists(path) {
        return read(CASES, &read_repo_file(path, CASES)?, out);
    }
    let hint = "`prodigy policy test --help` shows what a case looks like";
    Err(CliError::new(Exit::Usage, format!("there is no file `{CASES}`")).with_hint(hint))
}

/// Reads the text of a file of cases.
fn read(shown: &str, text: &str, out: &mut Console) -> Result<Vec<PolicyCase>, CliError> {
    PolicyCase::read(shown, text).map_err(|rejected| invalid_file_error(shown, &rejected, out))
}

/// Tells what was expected of a case, what came out, and why.
fn explain(
    expected: &ExpectedDecision,
    ruling: &ReplayDecision<'_>,
    out: &mut Console,
) -> Result<(), CliError> {
    let ExpectedDecision { verdict, action, rule } = expected;
    let parts = |verdict: Option<&str>, action: Option<&str>, rule: Option<&str>| {
        let parts = [("verdict", verdict), ("action", action), ("rule", rule)];
        let said = parts.iter().filter_map(|(key, word)| Some(format!("{key} {}", (*word)?)));
        said.collect::<Vec<_>>().join(", ")
    };
    let wanted = parts(
        verdict.map(ReplayVerdict::as_str),
        action.map(ReplayAction::as_str),
        rule.as_deref(),
    );
    out.line(format_args!("  expected  {wanted}"))?;
    let (verdict, action) = (ruling.verdict.as_str(), ruling.action.as_str());
    let actual = parts(Some(verdict), Some(action), Some(&ruling.rule.name));
    out.line(format_args!("  actual    {actual}"))?;
    for sentence in ruling.explain() {
        out.line(format_args!("            {sentence}"))?;
    }
    Ok(())
}
