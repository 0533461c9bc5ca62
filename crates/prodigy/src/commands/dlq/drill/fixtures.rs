//! The files of a rehearsal.

/// The one item that is worked on.
pub(crate) const ITEM: &str = "pr-1";

/// The faults around the step with the side effect.
#[derive(Clone, Copy, Default)]
pub(crate) struct InjectedFault {
    /// Shell commands of the step before, which changes nothing outside.
    pub(crate) before: &'static str,
    /// Shell commands right before the effect.
    pub(crate) about_to: &'static str,
    /// Shell commands right after the effect.
    pub(crate) just_done: &'static str,
}

/// A service that is down until it is mended.
pub(crate) const DOWN: &str = r#"test -e "$DRILL/mended" || {
          echo "curl: (7) Failed to connect to api.example port 443: Connection refused" >&2
          exit 7
        }"#;

/// An input that is not there.
pub(crate) const GONE: &str = r#"test -e ${item.file} || {
          echo '{"reason_code": "input_missing"}' > "$PRODIGY_RESULT_FILE"
          echo "the input is gone" >&2
          exit 1
        }"#;

/// Something that a policy keeps back.
pub(crate) const INVALID: &str = r#"test -e "$DRILL/mended" || {
          echo '{"reason_code": "schema_invalid"}' > "$PRODIGY_RESULT_FILE"
          echo "the answer has another shape" >&2
          exit 1
        }"#;

/// Something that somebody has to agree to.
pub(crate) const DENIED: &str = r#"test -e "$DRILL/mended" || {
          touch "$DRILL/mended"
          echo '{"reason_code": "denied"}' > "$PRODIGY_RESULT_FILE"
          echo "the change needs an agreement" >&2
          exit 1
        }"#;

/// Ends prodigy, once, as a power cut would.
pub(crate) const CRASH: &str = r#"test -e "$DRILL/crashed" || {
          touch "$DRILL/crashed"
          tries=0
          while [ ! -s "$DRILL/pid" ] && [ "$tries" -lt 200 ]; do
            sleep 0.05
            tries=$((tries + 1))
          done
          kill -9 "$(cat "$DRILL/pid")"
          sleep 60
        }"#;

/// Returns the workflow: an agent works on the item, then a step changes something outside.
pub(crate) fn workflow(trouble: InjectedFault) -> String {
    let or = |text: &'static str| if text.is_empty() { ":" } else { text };
    let (before, about_to, just_done) =
        (or(trouble.before), or(trouble.about_to), or(trouble.just_done));
    format!(
        r#"name: drill
mode: mapreduce
map:
  input: {{ items: [{{ id: {ITEM}, file: gone.txt }}] }}
  item_key: item.id
  max_parallel: 1
  agent_template:
    - claude: "Prepare ${{item.id}}"
    - name: look
      shell: |
        {before}
    - id: open-pr
      name: open-pr
      effects: external
      shell: |
        {about_to}
        echo "$PRODIGY_IDEMPOTENCY_KEY" >> "$DRILL/effects"
        {just_done}
        echo "pull request 17"
      check: |
        test -e "$DRILL/effects" || exit 1
        grep -qxF "$PRODIGY_IDEMPOTENCY_KEY" "$DRILL/effects"
agents:
  claude:
    type: simulated
    rules: [{{ answer: "ready" }}]
"#
    )
}

/// A job whose step lets everything be replayed, and commits that.
pub(crate) const MEDDLE: &str = "name: meddle
steps:
  - shell: \"sed -i -e 's/require_approval/auto_replay/' -e '/approver_group:/d' -e '/^approver_groups:/,$d' .prodigy/replay-policy.yml\"
    auto_commit: true
";

/// Returns a policy by which nobody has to agree to anything.
pub(crate) fn lax_policy(policy: &str) -> String {
    let rules = policy.split("approver_groups:").next().unwrap_or_default();
    rules.replace("require_approval", "auto_replay").replace("    approver_group: governance\n", "")
}

/// Returns a workflow whose step agrees to a replay, and hides what it is.
pub(crate) fn self_approving_workflow(
    program: &str,
    job: &str,
    item: &str,
    digest: &str,
) -> String {
    format!(
        "name: sly
steps:
  - shell: |
      env -u PRODIGY_AUTOMATION {program} dlq approve {job} {item} --expect {digest} > \"$DRILL/said\" 2>&1
      echo $? >> \"$DRILL/said\"
"
    )
}

/// A policy with a rule for everything that the scenarios meet.
pub(crate) fn policy(ttl: &str, max_replays: u32) -> String {
    format!(
        "version: v1
dlq_rules:
  - match: {{ reason_code: [schema_invalid, input_missing] }}
    action: quarantine
    owner: integration-team
  - match: {{ reason_code: denied }}
    action: require_approval
    approver_group: governance
  - match: {{ reason_code: [unknown_commit_state] }}
    action: check_then_replay
  - match: {{ class: transient }}
    action: auto_replay
    max_replays: {max_replays}
defaults: {{ action: manual_review }}
approver_groups:
  governance:
    members: [ben@example.com, carol@example.com]
    ttl: {ttl}
    distinct_from: [submitter, replayer]
"
    )
}
