//! Lowering of the policy for failed items: `error_policy` and the same keys at the top level.

use std::{collections::BTreeMap, num::NonZeroU32, time::Duration};

use super::{
    context::Lower,
    fields::Fields,
    read::at_least_one,
    retry::{OF_ITEMS, default_retry},
    scope::Scope,
};
use crate::{
    diagnostic::Diagnostic,
    nearest::did_you_mean,
    workflow::{BreakerConfig, ErrorCollection, ErrorPolicy, OnItemFailure, Preserve, Step},
    yaml::YamlNode,
};

/// The default number of items that must have finished before `failure_threshold` applies.
const MIN_ITEMS: u32 = 10;

/// The default number of failures in a batch.
const BATCH: NonZeroU32 = at_least_one(10);

const ACTIONS: &[(&str, OnItemFailure)] = &[
    ("dlq", OnItemFailure::Dlq),
    ("retry", OnItemFailure::Retry),
    ("skip", OnItemFailure::Skip),
    ("stop", OnItemFailure::Stop),
];

const PRESERVE: &[(&str, Preserve)] =
    &[("failed", Preserve::Failed), ("always", Preserve::Always), ("never", Preserve::Never)];

/// The default circuit breaker; also what a partial `circuit_breaker` falls back to.
const BREAKER: BreakerConfig = BreakerConfig {
    failure_threshold: at_least_one(5),
    success_threshold: at_least_one(2),
    timeout: Duration::from_secs(30),
    half_open_requests: at_least_one(3),
};

impl Lower<'_> {
    /// Reads the error policy from its block and from the top of the file.
    pub(super) fn error_policy(&mut self, root: &mut Fields<'_>, scope: &Scope) -> ErrorPolicy {
        let mut block = root.take("error_policy").and_then(|node| self.fields(node));
        let mut inner = |name: &str| block.as_mut().and_then(|fields| fields.take(name));
        let handlers = inner("handlers").map(|node| self.handlers(node, scope)).unwrap_or_default();
        let min_items = inner("min_items").and_then(|node| self.whole(node));
        let systemic_stop = inner("systemic_stop").and_then(|node| self.count(node));
        let preserve = inner("preserve_worktrees").and_then(|node| self.word(node, PRESERVE));
        let mut either = |name: &str| {
            let inside = block.as_mut().and_then(|fields| fields.take(name));
            inside.or_else(|| root.take(name))
        };
        let action = either("on_item_failure");
        let go_on = either("continue_on_failure");
        let max_failures = either("max_failures");
        let threshold = either("failure_threshold");
        let collection = either("error_collection");
        let breaker = either("circuit_breaker");
        let retry = either("retry_config");
        let on_item_failure = action
            .and_then(|node| self.on_item_failure(node, &handlers))
            .unwrap_or(OnItemFailure::Dlq);
        let is_tried_again = on_item_failure == OnItemFailure::Retry;
        let retry = retry.and_then(|node| self.retry(node, OF_ITEMS));
        let policy = ErrorPolicy {
            on_item_failure,
            continue_on_failure: go_on.and_then(|node| self.boolean(node)).unwrap_or(true),
            max_failures: max_failures.and_then(|node| self.count(node)),
            failure_threshold: threshold.and_then(|node| self.number(node, 0.0, 1.0)),
            systemic_stop,
            min_items: min_items.unwrap_or(MIN_ITEMS),
            error_collection: collection
                .and_then(|node| self.error_collection(node))
                .unwrap_or(ErrorCollection::Aggregate),
            circuit_breaker: breaker.and_then(|node| self.breaker(node)),
            retry: retry.or_else(|| is_tried_again.then(default_retry)),
            preserve_worktrees: preserve.unwrap_or(Preserve::Failed),
            handlers,
        };
        if let Some(block) = block {
            self.finish(block);
        }
        policy
    }

    fn handlers(&mut self, node: &YamlNode, scope: &Scope) -> BTreeMap<String, Vec<Step>> {
        let entries = self.table(node).iter();
        entries.map(|(key, steps)| (key.text.clone(), self.steps(steps, scope))).collect()
    }

    fn on_item_failure(
        &mut self,
        node: &YamlNode,
        handlers: &BTreeMap<String, Vec<Step>>,
    ) -> Option<OnItemFailure> {
        let text = self.filled(node)?;
        // A word that is an action means that; `custom:` in front names a handler all the same.
        let action = ACTIONS.iter().find(|(word, _)| *word == text.trim());
        if let Some((_, action)) = action {
            return Some(action.clone());
        }
        let name = text.strip_prefix("custom:").unwrap_or(&text).trim();
        if handlers.contains_key(name) {
            return Some(OnItemFailure::Custom(name.to_owned()));
        }
        let message = format!("there is no handler `{name}` in `error_policy.handlers`");
        let mut diagnostic = Diagnostic::error(node.span, message);
        let actions = ACTIONS.iter().map(|(word, _)| *word);
        diagnostic.help = did_you_mean(name, handlers.keys().map(String::as_str).chain(actions));
        self.report(diagnostic);
        None
    }

    fn error_collection(&mut self, node: &YamlNode) -> Option<ErrorCollection> {
        if node.as_mapping().is_some() {
            let mut fields = self.fields(node)?;
            let batched = self.required(&mut fields, "batched");
            self.finish(fields);
            let mut fields = self.fields(batched?)?;
            let size = fields.take("size").and_then(|node| self.count(node)).unwrap_or(BATCH);
            self.finish(fields);
            return Some(ErrorCollection::Batched { size });
        }
        let text = self.text(node)?;
        let size = text.strip_prefix("batched:").and_then(|size| size.trim().parse().ok());
        let collection = match (text.as_str(), size) {
            ("aggregate", _) => Some(ErrorCollection::Aggregate),
            ("immediate", _) => Some(ErrorCollection::Immediate),
            ("batched", _) => Some(ErrorCollection::Batched { size: BATCH }),
            (_, Some(size)) => Some(ErrorCollection::Batched { size }),
            (_, None) => None,
        };
        if collection.is_none() {
            self.wrong_kind(node, "`aggregate`, `immediate`, `batched` or `batched:N`");
        }
        collection
    }

    fn breaker(&mut self, node: &YamlNode) -> Option<BreakerConfig> {
        let mut fields = self.fields(node)?;
        let at = fields.peek("success_threshold").map(|node| node.span);
        let mut count = |name| fields.take(name).and_then(|node: &YamlNode| self.count(node));
        let failure_threshold = count("failure_threshold").unwrap_or(BREAKER.failure_threshold);
        let successes = count("success_threshold");
        let half_open_requests = count("half_open_requests").unwrap_or(BREAKER.half_open_requests);
        // What is not written is no more than what can be reached.
        let usual = BREAKER.success_threshold.min(half_open_requests);
        let success_threshold = successes.unwrap_or(usual);
        if let Some(span) = at.filter(|_| success_threshold > half_open_requests) {
            let message = format!(
                "the circuit could never close: `success_threshold` is {success_threshold}, but only {half_open_requests} attempts are let through"
            );
            let mut diagnostic = Diagnostic::error(span, message);
            let help =
                format!("write `half_open_requests: {success_threshold}`, or fewer successes");
            diagnostic.help = Some(help);
            self.report(diagnostic);
        }
        let timeout = fields.take("timeout").and_then(|node| self.limit(node));
        let timeout = timeout.unwrap_or(BREAKER.timeout);
        self.finish(fields);
        Some(BreakerConfig { failure_threshold, success_threshold, timeout, half_open_requests })
    }
}
