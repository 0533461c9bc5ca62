//! What goes wrong with real agents, and the reason codes that it gets.

use insta::assert_snapshot;
use prodigy_testkit::{
    crash::check_processes,
    model::{ModelBehaviour, ModelScript, ScriptedModel},
};
use serde_json::json;

use crate::fixture::{
    map_job::{assert_code, beside, go, of_type},
    real_agents::{CLAUDE, claude_world, codex_world, deaths},
    workflow::stable,
};

#[test]
fn every_fault_has_its_reason_code() {
    let model = ScriptedModel::start(ModelScript::new(ModelBehaviour::Commit));
    let world = claude_world(
        &model,
        &format!(
            r#"{CLAUDE}
    max_turns: 4
    max_budget_usd: 0.5
map:
  input:
    items:
      - hang
      - "429"
      - "500"
      - "529"
      - cut
      - costly
      - denied
      - denied_then_works
      - endless
      - huge
      - kill
      - malformed
      - overflow
      - refusal
      - text
  item_key: item
  max_parallel: 4
  agent_template:
    - claude: "Work. item=${{item}} mode=${{item}}"
      when: "item == 'hang'"
      idle_timeout: 1s
    - claude: "Work. item=${{item}} mode=${{item}}"
      when: "item in ['denied', 'huge']"
    - claude: "Work. item=${{item}} mode=${{item}}"
      when: "!(item in ['denied', 'hang', 'huge'])"
      commit_required: true
"#
        ),
    );
    assert_code(&go(&world), 0);
    assert_snapshot!(deaths(&world), @"
    429 rate_limited: API Error: Request rejected (429) · This request would excee
    500 dependency_unavailable: API Error: 500 Internal server error. This is a server-side
    529 provider_overloaded: API Error: 529 Overloaded. This is a server-side issue, usua
    costly budget_exceeded: Reached maximum budget ($0.5)
    cut network_error: API Error: Connection dropped (ECONNRESET). Check the gatewa
    denied permission_denied: the agent changed nothing: it was not allowed to use `Bash`
    endless turn_limit: Reached maximum number of turns (4)
    hang stalled: printed nothing for 1s
    kill agent_crashed: the agent was ended by signal 9
    malformed network_error: API Error: API returned an empty or malformed response (HTTP
    overflow context_overflow: Prompt is too long · the request is ~215000 tokens (limit 20
    refusal agent_refused: API Error: Opus 5.5's safeguards flagged this message (https
    text no_commit: the step made no commit, and `commit_required` is set
    ");
    let warned = of_type(&world, "agent_warned");
    assert_eq!(warned.len(), 1);
    assert_eq!(warned[0]["item_id"], "denied_then_works");
    assert_eq!(world.read("denied_then_works.txt"), "denied_then_works is done\n");
    check_processes(&world).unwrap();
}

#[test]
fn what_an_agent_answers_is_checked_against_its_schema() {
    let script = ModelScript::new(ModelBehaviour::Commit)
        .on("item=good", ModelBehaviour::Structured(json!({ "files": 3 })))
        .on("item=bad", ModelBehaviour::Structured(json!({ "files": "three" })));
    let model = ScriptedModel::start(script);
    let world = claude_world(
        &model,
        r#"
map:
  input: { items: [good, bad] }
  item_key: item
  agent_template:
    - claude: "Count. item=${item}"
      output_schema: { type: object, properties: { files: { type: integer } }, required: [files] }
      capture: { counted: { format: json } }
    - shell: 'echo ${counted.files} > ROOT/counted-${item}'
"#,
    );
    assert_code(&go(&world), 0);
    assert_snapshot!(deaths(&world), @"bad schema_invalid: Failed to provide valid structured output after 5 attempts —");
    assert_eq!(beside(&world, "counted-good"), "3\n");
}

#[test]
fn without_money_nothing_more_is_started() {
    let model = ScriptedModel::start(ModelScript::new(ModelBehaviour::NoCredit));
    let world = claude_world(
        &model,
        &format!(
            r#"{CLAUDE}
map:
  input: {{ items: [a, b, c, d] }}
  item_key: item
  max_parallel: 1
  agent_template:
    - claude: "Work. item=${{item}}"
"#
        ),
    );
    let seen = go(&world);
    assert_eq!(model.turns().len(), 1, "{seen}");
    assert_snapshot!(stable(&seen), @"
    ----- stderr -----
    · job job · workflow.yml · mapreduce
    · 4 items
    ✗ Credit balance is too low

    paused: Credit balance is too low · 0 of 4 items done · [time]
    items: 0 successful, 4 waiting
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    next: prodigy resume job
    [exit 6]
    ");
}
#[test]
fn every_fault_of_codex_has_its_reason_code() {
    let script = ModelScript::new(ModelBehaviour::Commit)
        .on("item=good", ModelBehaviour::Structured(json!({ "files": 3 })))
        .on("item=bad", ModelBehaviour::Structured(json!({ "files": "three" })));
    let model = ScriptedModel::start(script);
    let world = codex_world(
        &model,
        r#"
map:
  input: { items: [hang, "429", "500", "529", cut, kill, malformed, overflow, refusal, text, good, bad] }
  item_key: item
  max_parallel: 4
  agent_template:
    - codex: "Work. item=${item} mode=${item}"
      when: "item == 'hang'"
      idle_timeout: 1s
    - codex: "Work. item=${item} mode=${item}"
      when: "!(item in ['hang', 'good', 'bad'])"
      commit_required: true
    - codex: "Count. item=${item}"
      when: "item in ['good', 'bad']"
      output_schema: { type: object, properties: { files: { type: integer } }, required: [files], additionalProperties: false }
      capture: { counted: { format: json } }
    - shell: 'echo ${counted.files} > ROOT/counted-${item}'
      when: "item == 'good'"
"#,
    );
    assert_code(&go(&world), 0);
    assert_snapshot!(deaths(&world), @"
    429 rate_limited: exceeded retry limit, last status: 429 Too Many Requests
    500 provider_overloaded: We’re currently experiencing high demand, which may cause te
    529 provider_overloaded: Selected model is at capacity. Please try a different model
    bad schema_invalid: the answer does not satisfy `output_schema`: `/files` must b
    cut network_error: stream disconnected before completion: stream closed before
    hang stalled: printed nothing for 1s
    kill agent_crashed: the agent was ended by signal 9
    malformed network_error: stream disconnected before completion: stream closed before
    overflow context_overflow: Codex ran out of room in the model's context window. Start a
    refusal agent_crashed: the agent did nothing and said nothing
    text no_commit: the step made no commit, and `commit_required` is set
    ");
    assert_eq!(beside(&world, "counted-good"), "3\n");
    check_processes(&world).unwrap();
}
