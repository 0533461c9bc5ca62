//! Patterns for events that belong together.
//!
//! A `match` over events names all of them, so that a new one is not overlooked. Where
//! several mean the same to everybody who does not care for them, one word stands for all.

/// What an agent tells about its work, besides what it costs.
#[macro_export]
macro_rules! agent_news {
    () => {
        $crate::event::Event::AgentSessionStarted { .. }
            | $crate::event::Event::AgentToolUsed { .. }
            | $crate::event::Event::AgentWarned { .. }
    };
}

/// What keeps agents from starting, suspends their work, or allows more or fewer of them.
#[macro_export]
macro_rules! spending_news {
    () => {
        $crate::event::Event::WorkSuspended(_)
            | $crate::event::Event::QuotaPaused(_)
            | $crate::event::Event::QuotaWarned { .. }
            | $crate::event::Event::QuotaResumed {}
            | $crate::event::Event::BudgetExceeded { .. }
            | $crate::event::Event::ConcurrencyChanged { .. }
    };
}

/// What steps change outside.
#[macro_export]
macro_rules! effect_news {
    () => {
        $crate::event::Event::EffectPrepared(_)
            | $crate::event::Event::EffectCommitted { .. }
            | $crate::event::Event::EffectReconciled { .. }
            | $crate::event::Event::EffectCompensated { .. }
    };
}

/// What the journal says about itself.
#[macro_export]
macro_rules! journal_news {
    () => {
        $crate::event::Event::JournalEndLost { .. } | $crate::event::Event::CheckpointCreated { .. }
    };
}

/// What people say to a replay.
#[macro_export]
macro_rules! approval_news {
    () => {
        $crate::event::Event::ApprovalRequested(_)
            | $crate::event::Event::ApprovalGranted { .. }
            | $crate::event::Event::ApprovalDenied { .. }
    };
}

/// Changes that the user should look at: of the checkout, and of files that decide what runs.
#[macro_export]
macro_rules! checkout_news {
    () => {
        $crate::event::Event::CheckoutChanged { .. }
            | $crate::event::Event::GuardedFilesChanged { .. }
    };
}

/// How the circuit breaker changes.
#[macro_export]
macro_rules! circuit_news {
    () => {
        $crate::event::Event::CircuitOpen { .. }
            | $crate::event::Event::CircuitHalfOpen {}
            | $crate::event::Event::CircuitClosed {}
    };
}

/// What is done about an item besides its attempts: its conflict is resolved, its handler
/// repeated.
#[macro_export]
macro_rules! resolution_news {
    () => {
        $crate::event::Event::HandlerRestarted { .. }
            | $crate::event::Event::ResolutionStarted { .. }
            | $crate::event::Event::ResolutionCompleted { .. }
            | $crate::event::Event::ResolutionFailed { .. }
    };
}
