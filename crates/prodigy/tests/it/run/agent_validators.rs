//! `validate` with an agent as the judge: what it may answer, and what follows.

use insta::assert_snapshot;

use crate::fixture::map_job::{assert_code, counts, go, letter, map_world, sorted};

/// What the judge answers about each item, and about `mended` once more when it was mended.
const RULES: &str = r#"
agents:
  claude:
    type: simulated
    rules:
      - { prompt: "^work on", edits: [{ path: "{item}.txt" }], commit: "Do {item}" }
      - { prompt: "^mend", edits: [{ path: "{item}.txt", content: "{prompt}" }], commit: "Mend {item}" }
      - { prompt: "^judge prose", answer: 'I read {all of it}. {"completion_percentage": 95} is what I think of {it}.' }
      - prompt: "^judge fenced"
        answer: |
          The plan was {everything}, and now:
          ```json
          { "status": "complete", "gaps": { "docs": "thin" } }
          ```
      - { prompt: "^judge words", answer: "All done, 100 %!" }
      - { prompt: "^judge other", answer: 'It is {"done": true}.' }
      - { prompt: "^judge much", answer: '{"completion_percentage": 900}' }
      - { prompt: "^judge failing", fault: error, answer: "no idea" }
      - { prompt: "^judge mended, before none", answer: 'Not yet: {"completion_percentage": 40, "missing": ["tests"]}' }
      - { prompt: "^judge mended, before 40", answer: "```\n{\"completion_percentage\": 100}\n```" }
      - { prompt: "^judge poor", answer: '{"status": "incomplete"}' }
"#;

#[test]
fn an_agent_judges_by_what_it_says_and_not_by_how_it_ends() {
    let world = map_world(&format!(
        r#"{RULES}
map:
  input: {{ items: [prose, fenced, words, other, much, failing, mended, poor] }}
  item_key: item
  max_parallel: 4
  agent_template:
    - claude: "work on ${{item}}"
      validate:
        claude: "judge ${{item}}, before ${{validation.completion_percentage:-none}}"
        threshold: 90
        on_incomplete: {{ claude: "mend ${{validation.missing}}", max_attempts: 1 }}
    - shell: echo "${{item}} ${{validation.completion_percentage}} ${{validation.gaps}}" >> ROOT/judged
"#
    ));
    assert_code(&go(&world), 0);
    assert_eq!(counts(&world), (3, 5, 0));
    assert_snapshot!(sorted(&world, "judged"), @r#"
    fenced 100 {"docs":"thin"}
    mended 100 {}
    prose 95 {}
    "#);
    assert_eq!(world.read("mended.txt"), r#"mend ["tests"]"#);
    let why = ["words", "other", "much", "failing", "poor"].map(|item| {
        let letter = letter(&world, item);
        format!(
            "{item} {}: {}",
            letter["reason_code"].as_str().unwrap(),
            letter["reason"].as_str().unwrap()
        )
    });
    assert_snapshot!(why.join("\n"), @r#"
    words validation_failed: the judge's answer cannot be used: it has no JSON object with `completion_percentage` or `status`, but this: `All done, 100 %!`
    other validation_failed: the judge's answer cannot be used: it has no JSON object with `completion_percentage` or `status`, but this: `It is {"done": true}.`
    much validation_failed: the judge's answer cannot be used: `completion_percentage` must be a number from 0 to 100, not 900
    failing agent_error: validate: no idea
    poor validation_failed: validation found 0 % done, and 90 % is wanted
    "#);
}
