//! Lowering of the spending limits and of the policy for usage limits.

use super::context::Lower;
use crate::{
    policy::{Budget, OnExceeded, OnLimit, OnUnknownCost, QuotaPolicy},
    yaml::YamlNode,
};

const ON_EXCEEDED: &[(&str, OnExceeded)] =
    &[("pause", OnExceeded::Pause), ("stop", OnExceeded::Stop)];

const ON_UNKNOWN: &[(&str, OnUnknownCost)] =
    &[("ignore", OnUnknownCost::Ignore), ("stop", OnUnknownCost::Stop)];

const ON_LIMIT: &[(&str, OnLimit)] = &[("wait", OnLimit::Wait), ("stop", OnLimit::Stop)];

impl Lower<'_> {
    /// Reads `budget`.
    pub(super) fn budget(&mut self, node: &YamlNode) -> Option<Budget> {
        let mut fields = self.fields(node)?;
        let mut usd = |name| fields.take(name).and_then(|node| self.number(node, 0.0, f64::MAX));
        let (item_usd, job_usd, day_usd) = (usd("item_usd"), usd("job_usd"), usd("day_usd"));
        let on_exceeded = fields.take("on_exceeded").and_then(|node| self.word(node, ON_EXCEEDED));
        let on_unknown = fields.take("on_unknown").and_then(|node| self.word(node, ON_UNKNOWN));
        self.finish(fields);
        let on_exceeded = on_exceeded.unwrap_or_default();
        let on_unknown = on_unknown.unwrap_or_default();
        Some(Budget { item_usd, job_usd, day_usd, on_exceeded, on_unknown })
    }

    /// Reads `quota`.
    pub(super) fn quota(&mut self, node: &YamlNode) -> Option<QuotaPolicy> {
        let mut fields = self.fields(node)?;
        let on_limit = fields.take("on_limit").and_then(|node| self.word(node, ON_LIMIT));
        let max_wait = fields.take("max_wait").and_then(|node| self.duration(node));
        let throttle_at = fields.take("throttle_at").and_then(|node| self.number(node, 0.0, 1.0));
        let max_restarts = fields.take("max_restarts").and_then(|node| self.whole(node));
        self.finish(fields);
        let on_limit = on_limit.unwrap_or_default();
        Some(QuotaPolicy { on_limit, max_wait, throttle_at, max_restarts })
    }
}
