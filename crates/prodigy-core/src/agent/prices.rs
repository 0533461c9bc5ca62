//! Prices of tokens, and the cost of agents that did not tell it.

use serde::{Deserialize, Serialize};

use super::TokenUsage;

/// Weights of the kinds of tokens beside one that is read and is in no cache. They make results
/// with much and with little in the cache comparable, and are no prices.
const OUTPUT_WEIGHT: f64 = 5.0;
const CACHE_READ_WEIGHT: f64 = 0.1;
const CACHE_WRITE_WEIGHT: f64 = 1.25;

/// The weight of the results before beside a new one: about the last ten count.
const FADING: f64 = 0.9;

/// The prices of an agent's tokens, in US dollars per million.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenPrices {
    /// Tokens that are read and are not in a cache.
    pub input: f64,
    /// Tokens that are written.
    pub output: f64,
    /// Tokens that are read from a cache.
    pub cache_read: f64,
    /// Tokens that are put into a cache.
    pub cache_write: f64,
}

impl TokenPrices {
    /// Returns what tokens cost, in US dollars.
    pub fn cost_usd(&self, tokens: TokenUsage) -> f64 {
        let million = |count: u64, price: f64| exact(count) * price / 1e6;
        million(tokens.input_tokens, self.input)
            + million(tokens.output_tokens, self.output)
            + million(tokens.cache_read_tokens, self.cache_read)
            + million(tokens.cache_write_tokens, self.cache_write)
    }
}

/// The price level of a model, as the results of its agents imply it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PriceLevel {
    cost_usd: f64,
    /// The tokens that this was paid for, weighted by kind.
    weight: f64,
}

impl PriceLevel {
    /// Returns the level that a cost for some tokens implies, if it implies one.
    pub fn of(cost_usd: f64, tokens: TokenUsage) -> Option<Self> {
        let weight = weighted_tokens(tokens);
        (cost_usd.is_finite() && cost_usd > 0.0 && weight > 0.0)
            .then_some(Self { cost_usd, weight })
    }

    /// Returns the level after one more result; older results fade.
    #[must_use]
    pub fn averaged_with(self, newer: Self) -> Self {
        Self {
            cost_usd: self.cost_usd * FADING + newer.cost_usd,
            weight: self.weight * FADING + newer.weight,
        }
    }

    /// Returns what tokens cost at this level, in US dollars; nothing if it makes no sense.
    pub fn cost_usd(self, tokens: TokenUsage) -> Option<f64> {
        let cost_usd = self.cost_usd / self.weight * weighted_tokens(tokens);
        (cost_usd.is_finite() && cost_usd >= 0.0).then_some(cost_usd)
    }
}

/// The sums of a stream: everything that a cost follows from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamTotals {
    /// The tokens that results told.
    #[serde(default, skip_serializing_if = "TokenUsage::is_empty")]
    pub settled: TokenUsage,
    /// The tokens that messages told and no result has covered yet.
    #[serde(default, skip_serializing_if = "TokenUsage::is_empty")]
    pub unsettled: TokenUsage,
    /// The cost that results told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl StreamTotals {
    /// Returns all tokens.
    pub fn usage(&self) -> TokenUsage {
        let mut sum = self.settled;
        sum += self.unsettled;
        sum
    }
}

/// The cost of a run of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AgentCost {
    /// The cost in US dollars, if it is known.
    pub usd: Option<f64>,
    /// True if it was computed from tokens because the agent did not tell it, or not all of it.
    pub estimated: bool,
}

impl AgentCost {
    /// The cost of an agent that never ran.
    pub const NOTHING: Self = Self { usd: Some(0.0), estimated: false };

    /// Returns the cost of a run from its stream: what its results told, and the tokens of no
    /// result times the agent's own prices, or else times what results of the same model imply,
    /// first those of the same stream.
    pub fn of(
        totals: &StreamTotals,
        prices: Option<&TokenPrices>,
        level: impl FnOnce(&str) -> Option<PriceLevel>,
    ) -> Self {
        // JSON has no other numbers, so no other could be read back.
        let told = totals.cost_usd.filter(|cost| cost.is_finite());
        let rest = if told.is_some() { totals.unsettled } else { totals.usage() };
        if rest.is_empty() {
            return Self { usd: told, estimated: false };
        }
        let implied = || {
            let own = told.and_then(|told| PriceLevel::of(told, totals.settled));
            own.or_else(|| level(totals.model.as_deref()?))?.cost_usd(rest)
        };
        let estimate = prices.map(|prices| prices.cost_usd(rest)).or_else(implied);
        let estimate = estimate.filter(|cost| cost.is_finite());
        Self {
            usd: estimate.map(|more| told.unwrap_or_default() + more),
            estimated: estimate.is_some(),
        }
    }
}

fn weighted_tokens(tokens: TokenUsage) -> f64 {
    exact(tokens.input_tokens)
        + exact(tokens.output_tokens) * OUTPUT_WEIGHT
        + exact(tokens.cache_read_tokens) * CACHE_READ_WEIGHT
        + exact(tokens.cache_write_tokens) * CACHE_WRITE_WEIGHT
}

#[expect(clippy::cast_precision_loss, reason = "nobody uses 2^53 tokens")]
fn exact(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{StreamDialect, StreamState};

    const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s","model":"m"}"#;
    const SPOKE: &str = r#"{"type":"assistant","message":{"id":"1","model":"m","content":[],"usage":{"input_tokens":1000,"output_tokens":200}}}"#;
    const RESULT: &str = r#"{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"done","total_cost_usd":0.5,"usage":{"input_tokens":500,"output_tokens":100}}"#;

    fn cost(lines: &[&str], prices: Option<TokenPrices>, level: Option<PriceLevel>) -> AgentCost {
        let mut heard = StreamState::new(StreamDialect::Claude);
        for line in lines {
            heard.handle_line(line.as_bytes());
        }
        AgentCost::of(&heard.totals(), prices.as_ref(), |model| level.filter(|_| model == "m"))
    }

    fn used(input_tokens: u64, output_tokens: u64) -> TokenUsage {
        TokenUsage { input_tokens, output_tokens, ..TokenUsage::default() }
    }

    fn rounded(cost: AgentCost) -> (Option<f64>, bool) {
        (cost.usd.map(|usd| (usd * 1e6).round() / 1e6), cost.estimated)
    }

    #[test]
    fn a_told_cost_is_taken_as_it_is() {
        let prices = TokenPrices { input: 1.0, output: 1.0, cache_read: 1.0, cache_write: 1.0 };
        let told = cost(&[INIT, SPOKE, RESULT], Some(prices), None);
        assert_eq!(rounded(told), (Some(0.5), false));
    }

    #[test]
    fn tokens_without_a_result_cost_what_prices_or_results_say() {
        let prices =
            TokenPrices { input: 100.0, output: 1000.0, cache_read: 0.0, cache_write: 0.0 };
        let level = PriceLevel::of(0.5, used(500, 100));
        assert_eq!(rounded(cost(&[INIT, SPOKE], Some(prices), level)), (Some(0.3), true));
        assert_eq!(rounded(cost(&[INIT, SPOKE], None, level)), (Some(1.0), true));
        assert_eq!(rounded(cost(&[INIT, SPOKE], None, None)), (None, false));
        assert_eq!(rounded(cost(&[INIT], Some(prices), level)), (None, false));
    }

    #[test]
    fn tokens_after_a_result_are_added_at_its_own_price() {
        let after = SPOKE.replace("\"1\"", "\"2\"");
        assert_eq!(rounded(cost(&[INIT, RESULT, &after], None, None)), (Some(1.5), true));
    }

    #[test]
    fn a_level_follows_the_newer_results() {
        let mut level = PriceLevel::of(1.0, used(1000, 0)).unwrap();
        for _ in 0..50 {
            level = level.averaged_with(PriceLevel::of(2.0, used(1000, 0)).unwrap());
        }
        assert!((level.cost_usd(used(1000, 0)).unwrap() - 2.0).abs() < 0.01);
        assert_eq!(PriceLevel::of(1.0, TokenUsage::default()), None);
        assert_eq!(PriceLevel::of(f64::NAN, used(1, 1)), None);
        assert_eq!(PriceLevel::of(0.0, used(1, 1)), None);
    }
}
