//! Tests of the simulated agent's decisions.

use serde_json::{Value, json};

use super::*;
use crate::{capture::CaptureFormat, ids::safe_name, json_schema::OutputSchema};

fn agent(rules: Vec<SimulatedRule>) -> SimulatedAgent {
    SimulatedAgent { seed: 7, rules, ..SimulatedAgent::default() }
}

fn rehearsal(rules: Vec<SimulatedRule>) -> SimulatedAgent {
    let work = SimulatedWork { cost_usd: 0.1, ..SimulatedWork::default() };
    SimulatedAgent { otherwise: Some(Box::new(work)), ..agent(rules) }
}

fn ask(prompt: &str, attempt: u32) -> SimulatedRequest<'_> {
    SimulatedRequest { prompt, item: "item-1", step: "1", attempt, ..SimulatedRequest::default() }
}

fn faulty(fault: SimulatedFault) -> SimulatedRule {
    let trouble = Some(SimulatedTrouble::always(fault));
    SimulatedRule { trouble, ..SimulatedRule::default() }
}

fn failing(probability: f64, times: Option<u32>) -> SimulatedAgent {
    let mut rule = faulty(SimulatedFault::Crash);
    if let Some(trouble) = &mut rule.trouble {
        (trouble.probability, trouble.times) = (probability, times);
    }
    agent(vec![rule])
}

fn answering(prompt: Option<&str>, answer: &str) -> SimulatedRule {
    SimulatedRule {
        when: SimulatedWhen { prompt: prompt.map(str::to_owned), ..SimulatedWhen::default() },
        work: SimulatedWork { answer: Some(answer.to_owned()), ..SimulatedWork::default() },
        trouble: None,
    }
}

#[test]
fn the_first_rule_that_matches_decides() {
    let agent = agent(vec![answering(Some("^fix"), "fixed"), answering(None, "other")]);
    assert_eq!(agent.decide_turn(&ask("fix it", 1)).answer, "fixed");
    assert_eq!(agent.decide_turn(&ask("do not fix it", 1)).answer, "other");
}

#[test]
fn a_rule_can_be_for_an_item_a_step_or_an_attempt() {
    let rule = |when: SimulatedWhen| SimulatedRule { when, ..answering(None, "this") };
    let text = |text: &str| Some(text.to_owned());
    let cases = [
        SimulatedWhen { item: text("item-1"), ..SimulatedWhen::default() },
        SimulatedWhen { item: text("item-*"), ..SimulatedWhen::default() },
        SimulatedWhen { step: text("1"), ..SimulatedWhen::default() },
        SimulatedWhen { step: text("na*"), ..SimulatedWhen::default() },
        SimulatedWhen { attempt: Some(2), ..SimulatedWhen::default() },
    ];
    for when in cases {
        let agent = agent(vec![rule(when.clone()), answering(None, "other")]);
        let request = SimulatedRequest { id: Some("name"), ..ask("p", 2) };
        assert_eq!(agent.decide_turn(&request).answer, "this", "{when:?}");
        let request = SimulatedRequest { item: "x", step: "3", attempt: 1, ..ask("p", 2) };
        assert_eq!(agent.decide_turn(&request).answer, "other", "{when:?}");
    }
}

#[test]
fn a_prompt_without_a_rule_is_an_error_unless_there_are_no_rules() {
    assert_eq!(
        agent(vec![answering(Some("^a$"), "")]).decide_turn(&ask("b", 1)).end,
        SimulatedEnd::Error
    );
    let turn = agent(vec![]).decide_turn(&ask("b", 1));
    let answer = "done".to_owned();
    assert_eq!(turn, SimulatedTurn { answer, ..SimulatedTurn::default() });
}

#[test]
fn the_prompt_is_filled_in_and_cannot_steer_a_path() {
    let edit = SimulatedEdit {
        path: "notes/{item}-{prompt}.md".to_owned(),
        content: "{prompt} of {item}\n".to_owned(),
        append: true,
    };
    let rule = SimulatedRule {
        work: SimulatedWork {
            answer: Some("did {prompt}".to_owned()),
            edits: vec![edit],
            commit: Some("{prompt}".to_owned()),
            ..SimulatedWork::default()
        },
        ..SimulatedRule::default()
    };
    let turn = agent(vec![rule]).decide_turn(&ask("../../x", 1));
    assert_eq!(turn.answer, "did ../../x");
    assert_eq!(turn.commit.as_deref(), Some("../../x"));
    let edit = &turn.edits[0];
    assert_eq!(edit.content, "../../x of item-1\n");
    assert_eq!(edit.path, format!("notes/item-1-{}.md", safe_name("../../x")));
    assert_eq!(edit.path.matches('/').count(), 1);
}

#[test]
fn a_fault_ends_after_its_times() {
    let agent = failing(1.0, Some(2));
    let struck = |n| agent.decide_turn(&ask("p", n)).end == SimulatedEnd::Crash;
    assert_eq!([1, 2, 3, 4].map(struck), [true, true, false, false]);
}

#[test]
fn luck_is_the_same_every_time_and_fair() {
    let count = |probability: f64| {
        let agent = failing(probability, None);
        let struck =
            |n: &u32| agent.decide_turn(&ask(&format!("p{n}"), 1)).end == SimulatedEnd::Crash;
        (0..1000).filter(struck).count()
    };
    assert_eq!(count(0.0), 0);
    assert_eq!(count(1.0), 1000);
    let third = count(0.3);
    assert!((250..350).contains(&third), "{third}");
    assert_eq!(third, count(0.3));
}

#[test]
fn another_attempt_step_item_or_seed_has_other_luck() {
    let work = SimulatedWork { jitter_ms: 1 << 40, ..SimulatedWork::default() };
    let rule = SimulatedRule { work, ..SimulatedRule::default() };
    let luck = |seed: u64, request: &SimulatedRequest<'_>| {
        SimulatedAgent { seed, ..agent(vec![rule.clone()]) }.decide_turn(request).delay_ms
    };
    let base = luck(1, &ask("p", 1));
    assert_eq!(base, luck(1, &ask("p", 1)));
    let step = SimulatedRequest { step: "2", ..ask("p", 1) };
    let item = SimulatedRequest { item: "item-2", ..ask("p", 1) };
    for other in [
        luck(2, &ask("p", 1)),
        luck(1, &ask("q", 1)),
        luck(1, &ask("p", 2)),
        luck(1, &step),
        luck(1, &item),
    ] {
        assert_ne!(base, other);
    }
}

#[test]
fn each_fault_changes_the_work_in_its_way() {
    let work = SimulatedWork {
        answer: Some("done".to_owned()),
        edits: ["a", "b"]
            .map(|path| SimulatedEdit { path: path.to_owned(), ..SimulatedEdit::default() })
            .to_vec(),
        commit: Some("Do it".to_owned()),
        delay_ms: 5,
        ..SimulatedWork::default()
    };
    let shown = SimulatedFault::TABLE.iter().map(|(word, fault)| {
        let rule = SimulatedRule { work: work.clone(), ..faulty(*fault) };
        let turn = agent(vec![rule]).decide_turn(&ask("p", 1));
        let edits: Vec<_> = turn.edits.iter().map(|edit| edit.path.as_str()).collect();
        let commit = turn.commit.is_some();
        format!("{word}: {:?}, {edits:?}, {commit}, {:?}, {}", turn.end, turn.answer, turn.noise)
    });
    let shown: Vec<_> = shown.collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    crash: Crash, ["a", "b"], true, "done", 0
    hang: Hang, ["a", "b"], true, "done", 0
    lie: Well, [], false, "done", 0
    error: Error, [], false, "done", 0
    permission_denied: Denied, [], false, "done", 0
    denied_worked_around: Denied, ["a", "b"], true, "done", 0
    rate_limited: Status(429), [], false, "done", 0
    overloaded: Status(529), [], false, "done", 0
    server_error: Status(500), [], false, "done", 0
    auth_failed: Status(401), [], false, "done", 0
    usage_limit: UsageLimit(AfterMs(60000)), ["a", "b"], true, "done", 0
    out_of_credits: Status(400), [], false, "done", 0
    refusal: Refusal, [], false, "done", 0
    max_turns: MaxTurns, ["a", "b"], false, "done", 0
    over_budget: OverBudget, ["a", "b"], false, "done", 0
    garbage: Garbage, ["a", "b"], true, "done", 0
    zero_turns: Well, [], false, "", 0
    partial: Well, ["a"], false, "done", 0
    no_commit: Well, ["a", "b"], false, "done", 0
    conflict: Well, ["a", "b", "simulated-conflict.txt"], true, "done", 0
    schema_mismatch: Well, ["a", "b"], true, "\"not what was asked for\"", 0
    not_satisfied: Well, ["a", "b"], true, "done", 0
    slow: Well, ["a", "b"], true, "done", 0
    huge: Well, ["a", "b"], true, "done", 16777216
    "#);
}

#[test]
fn what_a_step_allows_is_the_limit() {
    let work = SimulatedWork { turns: 5, cost_usd: 2.0, ..SimulatedWork::default() };
    let agent = agent(vec![SimulatedRule { work, ..SimulatedRule::default() }]);
    let turns = SimulatedRequest { max_turns: std::num::NonZeroU32::new(3), ..ask("p", 1) };
    let turn = agent.decide_turn(&turns);
    assert_eq!((turn.end, turn.turns), (SimulatedEnd::MaxTurns, 3));
    let turn = agent.decide_turn(&SimulatedRequest { max_budget_usd: Some(0.5), ..ask("p", 1) });
    assert_eq!((turn.end, turn.cost_usd), (SimulatedEnd::OverBudget, 0.5));
    let turn = agent.decide_turn(&SimulatedRequest { max_budget_usd: Some(2.0), ..ask("p", 1) });
    assert_eq!(turn.end, SimulatedEnd::Well);
}

#[test]
fn a_delay_has_some_jitter_and_the_fault_slow_owns_it() {
    let work = SimulatedWork { delay_ms: 100, jitter_ms: 50, ..SimulatedWork::default() };
    let plain = agent(vec![SimulatedRule { work: work.clone(), ..SimulatedRule::default() }]);
    let delays: Vec<_> =
        (0..20).map(|n| plain.decide_turn(&ask(&format!("{n}"), 1)).delay_ms).collect();
    assert!(delays.iter().all(|delay| (100..150).contains(delay)), "{delays:?}");
    assert!(delays.iter().any(|delay| *delay != delays[0]), "{delays:?}");
    let mut slow = SimulatedRule { work, ..faulty(SimulatedFault::Slow) };
    if let Some(trouble) = &mut slow.trouble {
        trouble.times = Some(1);
    }
    let slow = agent(vec![slow]);
    assert_eq!([1, 2].map(|n| slow.decide_turn(&ask("p", n)).delay_ms >= 100), [true, false]);
}

#[test]
fn in_a_rehearsal_a_fault_that_does_not_strike_is_passed_over() {
    let mut first = faulty(SimulatedFault::Crash);
    if let Some(trouble) = &mut first.trouble {
        trouble.times = Some(1);
    }
    let agent = rehearsal(vec![first, faulty(SimulatedFault::Error)]);
    let ends = [1, 2].map(|n| agent.decide_turn(&ask("p", n)).end);
    assert_eq!(ends, [SimulatedEnd::Crash, SimulatedEnd::Error]);
    let turn = rehearsal(vec![answering(Some("^a$"), "")]).decide_turn(&ask("b", 1));
    assert_eq!((turn.end, turn.cost_usd), (SimulatedEnd::Well, 0.1));
}

#[test]
fn in_a_rehearsal_everything_a_step_needs_is_made_up() {
    let agent = rehearsal(vec![]);
    let turn = agent.decide_turn(&ask("p", 1));
    assert_eq!((turn.answer.as_str(), turn.edits.len()), ("done", 0));
    let turn = agent.decide_turn(&SimulatedRequest { commit_required: true, ..ask("p", 1) });
    assert_eq!(turn.edits[0].path, "simulated/item-1-1.txt");
    assert_eq!(turn.commit.as_deref(), Some("Simulated change for item-1"));
    for format in [CaptureFormat::Number, CaptureFormat::Json, CaptureFormat::Boolean] {
        let turn = agent.decide_turn(&SimulatedRequest { format, ..ask("p", 1) });
        assert!(format.read(&turn.answer).is_ok(), "{}", turn.answer);
    }
}

fn schemas() -> Vec<Value> {
    vec![
        json!({}),
        json!({"type": "object", "required": ["a", "b"], "properties": {
            "a": {"type": "array", "minItems": 2, "items": {"type": "string", "minLength": 20}},
            "b": {"type": "integer", "minimum": 3},
        }}),
        json!({"anyOf": [{"type": "boolean"}, {"type": "null"}]}),
        json!({"enum": ["x", "y"]}),
        json!({"type": "string", "maxLength": 3}),
        json!({"allOf": [
            {"type": "object", "required": ["a"], "properties": {"a": {"const": 1}}},
            {"type": "object", "required": ["b"]},
        ]}),
        json!({"$ref": "#/$defs/n", "$defs": {"n": {"type": "number", "exclusiveMinimum": 1}}}),
        json!({"type": ["null", "string"]}),
        json!({"type": "number", "maximum": -2}),
    ]
}

#[test]
fn a_made_up_result_satisfies_the_schema_and_a_mismatch_does_not() {
    for source in schemas() {
        let schema = OutputSchema::parse(&source).unwrap();
        let request = SimulatedRequest { schema: Some(&schema), ..ask("p", 1) };
        let result = rehearsal(vec![]).decide_turn(&request).result.unwrap();
        assert_eq!(schema.validate(&result), Ok(()), "{source} {result}");
        let wrong =
            agent(vec![faulty(SimulatedFault::SchemaMismatch)]).decide_turn(&request).result;
        let is_wrong = schema.validate(&wrong.unwrap()).is_err();
        assert_eq!(is_wrong, source != json!({}), "{source}");
    }
}

#[test]
fn an_answer_in_json_is_data_where_a_schema_asks_for_it() {
    let schema = OutputSchema::parse(&json!({"type": "object"})).unwrap();
    let agent = agent(vec![answering(None, r#"{"a": 1}"#)]);
    let request = SimulatedRequest { schema: Some(&schema), ..ask("p", 1) };
    assert_eq!(agent.decide_turn(&request).result, Some(json!({"a": 1})));
    assert_eq!(agent.decide_turn(&ask("p", 1)).result, None);
}
