//! The output of agents: their streams, their usage, and the judgement of their answers.
//!
//! Everything here is pure. A line of a stream comes in, and its meaning comes out; no code here
//! starts a process or knows a worktree.

mod account;
mod claude;
mod claude_result;
mod codex;
mod counter;
mod json;
mod judgement;
mod limit;
mod limit_text;
mod outcome;
mod prices;
mod reset;
mod served;
mod shorten;
mod stream;
mod trouble;
mod usage;
mod words;

#[cfg(test)]
mod tests;

pub use self::{
    json::is_session_name,
    judgement::{
        VERDICT_SCHEMA, completion_percentage, parse_completion, parse_completion_file,
        parse_printed_completion,
    },
    limit::{QuotaKind, QuotaLimit},
    outcome::{AgentOutcome, Conclusion, RunEvidence, evaluate_run},
    prices::{AgentCost, PriceLevel, StreamTotals, TokenPrices},
    served::was_served,
    shorten::ShortenedLine,
    stream::{DeniedTool, StreamDialect, StreamEvent, StreamState},
    usage::TokenUsage,
};
