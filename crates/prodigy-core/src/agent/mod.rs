//! The output of agents: their streams, their usage, and the judgement of their answers.
//!
//! Everything here is pure. A line of a stream comes in, and its meaning comes out; no code here
//! starts a process or knows a worktree.

mod claude;
mod claude_result;
mod codex;
mod completion;
mod json;
mod line_shortener;
mod outcome;
mod prices;
mod quota;
mod quota_text;
mod reported_error;
mod reset_time;
mod stream;
mod stream_summary;
mod usage;

#[cfg(test)]
mod tests;

pub use self::{
    json::is_session_name,
    outcome::{AgentOutcome, Conclusion, RunEvidence, evaluate_run},
    prices::{AgentCost, PriceLevel, StreamTotals, TokenPrices},
    stream::{DeniedTool, StreamDialect, StreamEvent, StreamState},
    usage::TokenUsage,
};
pub use completion::{
    VERDICT_SCHEMA, completion_percentage, parse_completion, parse_completion_file,
    parse_printed_completion,
};
pub use line_shortener::ShortenedLine;
pub use outcome::was_served;
pub use quota::{QuotaKind, QuotaLimit};
