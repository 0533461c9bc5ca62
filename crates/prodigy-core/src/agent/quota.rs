//! Limits of an account: nobody's agent can go on until one is lifted.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::json::{self, RawField, partial};
use crate::Timestamp;

/// A limit of an account that an agent ran into.
///
/// It says nothing about the item that the agent worked on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuotaLimit {
    /// Which kind of limit.
    pub kind: QuotaKind,
    /// When it is lifted, if the provider said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<Timestamp>,
    /// Which limit it is, in the provider's words, e.g. `five_hour`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// The provider's message, for people.
    pub message: String,
}

impl QuotaLimit {
    /// Makes one of which only that it was reached is known.
    pub fn without_reset(message: impl Into<String>) -> Self {
        let (kind, message) = (QuotaKind::Usage, message.into());
        Self { kind, resets_at: None, window: None, message }
    }

    /// Makes the limit of a budget that cannot be kept because a cost is unknown.
    pub fn unknown_cost(message: impl Into<String>) -> Self {
        let (kind, message) = (QuotaKind::UnknownCost, message.into());
        Self { kind, resets_at: None, window: None, message }
    }

    /// Makes the limit of an account that cannot be used until somebody logs in or renews a key.
    pub fn no_access(message: impl Into<String>) -> Self {
        let (kind, message) = (QuotaKind::Access, message.into());
        Self { kind, resets_at: None, window: None, message }
    }
}

/// The kinds of limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuotaKind {
    /// Time lifts it.
    Usage,
    /// Money lifts it, and waiting does not.
    Credits,
    /// A login or a new key lifts it, and waiting does not.
    Access,
    /// The cost of an agent is unknown, so a budget cannot be kept; a resume lifts it.
    UnknownCost,
}

partial! {
    /// The provider's report on the limits of the account.
    RateLimitInfo {
        status, resets_at = "resetsAt", window = "rateLimitType", utilization,
        windows = "unifiedWindows",
        overage_status = "overageStatus", overage_resets_at = "overageResetsAt",
        overage_disabled_reason = "overageDisabledReason",
        is_using_overage = "isUsingOverage", overage_in_use = "overageInUse",
    }
}

partial! {
    /// The utilization of one limit.
    RateLimitWindow { utilization, resets_at = "resetsAt" }
}

/// The content of an event about the limits of the account.
pub(crate) struct QuotaStatus {
    /// The limit that stands in the way.
    pub(crate) limit: Option<QuotaLimit>,
    /// The utilization of each limit.
    pub(crate) windows: Vec<QuotaWindow>,
}

/// The utilization of one limit, and the time of its reset.
pub(crate) struct QuotaWindow {
    pub(crate) name: String,
    pub(crate) share: f64,
    pub(crate) resets_at: Option<Timestamp>,
}

impl QuotaStatus {
    /// Reads what the provider says, if it says anything.
    pub(crate) fn read(raw: RawField<'_>) -> Option<Self> {
        let info = json::read::<RateLimitInfo<'_>>(raw)?;
        let window = json::line(info.window);
        let windows: BTreeMap<String, RateLimitWindow<'_>> =
            json::read(info.windows).unwrap_or_default();
        let named_reset = reset_time(info.resets_at);
        let used = |(name, own): (String, RateLimitWindow<'_>)| {
            // What the event says of the time is about the limit that it names.
            let named = named_reset.filter(|_| window.as_deref() == Some(&name));
            let resets_at = reset_time(own.resets_at).or(named);
            json::non_negative(own.utilization).map(|share| QuotaWindow { name, share, resets_at })
        };
        let mut windows: Vec<QuotaWindow> = windows.into_iter().filter_map(used).collect();
        if windows.is_empty() {
            let alone = window.clone().zip(json::non_negative(info.utilization));
            let resets_at = named_reset;
            windows.extend(alone.map(|(name, share)| QuotaWindow { name, share, resets_at }));
        }
        let limit = info.is_in_the_way().then(|| info.limit(window));
        Some(Self { limit, windows })
    }
}

impl RateLimitInfo<'_> {
    /// Returns whether requests are refused. Where more usage may be paid for, they are not.
    fn is_in_the_way(&self) -> bool {
        let is_paid_for = json::flag(self.is_using_overage) == Some(true)
            || json::flag(self.overage_in_use) == Some(true)
            || json::is_text(self.overage_status, "allowed")
            || json::is_text(self.overage_status, "allowed_warning");
        json::is_text(self.status, "rejected") && !is_paid_for
    }

    fn limit(&self, window: Option<String>) -> QuotaLimit {
        let moment = |raw| json::count(raw).and_then(timestamp_from_epoch);
        let resets_at = moment(self.resets_at).or_else(|| moment(self.overage_resets_at));
        let is_out_of_credits = json::is_text(self.overage_disabled_reason, "out_of_credits");
        let kind = match resets_at {
            None if is_out_of_credits => QuotaKind::Credits,
            None | Some(_) => QuotaKind::Usage,
        };
        let name = window.as_deref().map_or_else(String::new, |name| format!(" `{name}`"));
        let message = format!("the account's limit{name} is reached");
        QuotaLimit { kind, resets_at, window, message }
    }
}

/// Returns the moment that a field names, if it names one.
fn reset_time(raw: RawField<'_>) -> Option<Timestamp> {
    json::count(raw).and_then(timestamp_from_epoch)
}

/// Returns a moment that is given in seconds since 1970, or in milliseconds or less: which of
/// them is clear from how large the number is.
pub(crate) fn timestamp_from_epoch(number: u64) -> Option<Timestamp> {
    let number = i64::try_from(number).ok()?;
    match number {
        0..100_000_000_000 => Timestamp::from_second(number).ok(),
        100_000_000_000..100_000_000_000_000 => Timestamp::from_millisecond(number).ok(),
        _ => Timestamp::from_microsecond(number).ok(),
    }
}
