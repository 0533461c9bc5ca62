//! Patterns for events that belong together.
//!
//! A `match` over events names all of them, so that a new one is not overlooked. Where
//! several mean the same to everybody who does not care for them, one word stands for all.

/// Events about the work of an agent, besides its cost.
#[macro_export]
macro_rules! agent_news {
    () => {
        $crate::event::Event::AgentSessionStarted { .. }
            | $crate::event::Event::AgentToolUsed { .. }
            | $crate::event::Event::AgentWarned { .. }
    };
}

/// Events that stop agents from starting, suspend their work, or change the concurrency.
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

/// Events about side effects of steps.
#[macro_export]
macro_rules! effect_news {
    () => {
        $crate::event::Event::EffectPrepared(_)
            | $crate::event::Event::EffectCommitted { .. }
            | $crate::event::Event::EffectReconciled { .. }
            | $crate::event::Event::EffectCompensated { .. }
    };
}

/// Events about the journal itself.
#[macro_export]
macro_rules! journal_news {
    () => {
        $crate::event::Event::JournalEndLost { .. } | $crate::event::Event::CheckpointCreated { .. }
    };
}

/// Events about approvals of replays.
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

/// Events about the circuit breaker.
#[macro_export]
macro_rules! circuit_news {
    () => {
        $crate::event::Event::CircuitOpen { .. }
            | $crate::event::Event::CircuitHalfOpen {}
            | $crate::event::Event::CircuitClosed {}
    };
}

/// Events about an item besides its attempts: the resolution of its conflict, the restart of its
/// handler.
#[macro_export]
macro_rules! resolution_news {
    () => {
        $crate::event::Event::HandlerRestarted { .. }
            | $crate::event::Event::ResolutionStarted { .. }
            | $crate::event::Event::ResolutionCompleted { .. }
            | $crate::event::Event::ResolutionFailed { .. }
    };
}
