//! Patterns that output is searched for.

use crate::failure::ReasonCode;

/// The patterns of a line, and the reason code that they stand for.
///
/// Rows are tried from the top, on each line from the last to the first.
pub(crate) struct OutputPattern {
    pub(crate) kind: ReasonCode,
    /// Answers of an HTTP server, where the line says that they are that.
    pub(crate) statuses: &'static [&'static str],
    /// Words that stand together, in lower case and with nothing between them but spaces.
    pub(crate) phrases: &'static [&'static str],
    /// Text as it stands, in lower case: for what is not words. `^` and `$` are the ends of the line.
    pub(crate) marks: &'static [&'static str],
}

/// The table of everything that output is searched for.
///
/// Quoted text does not count, and words have to be whole: `test_rate_limit` and
/// `429 passed` are no rate limit.
pub(crate) const ROWS: &[OutputPattern] = &[
    OutputPattern {
        kind: ReasonCode::DiskFull,
        statuses: &["507"],
        phrases: &[
            "no space left on device",
            "no space left on disk",
            "not enough space on the disk",
            "disk quota exceeded",
            "insufficient disk space",
            "disk is full",
            "disk full",
            "enospc",
            "edquot",
            "file size limit exceeded",
            "os error 28",
        ],
        marks: &[],
    },
    OutputPattern {
        kind: ReasonCode::OomKilled,
        statuses: &[],
        phrases: &[
            "out of memory",
            "cannot allocate memory",
            "memory allocation failed",
            "memory exhausted",
            "outofmemoryerror",
            "oomkilled",
            "oom killed",
            "enomem",
            "bad_alloc",
        ],
        // Rust says how many bytes it wanted; Python names the exception.
        marks: &["memory allocation of", "memoryerror:"],
    },
    OutputPattern {
        kind: ReasonCode::ContextOverflow,
        statuses: &[],
        phrases: &[
            "prompt is too long",
            "context length exceeded",
            "maximum context length",
            "context window exceeded",
            "exceeds the context window",
            "exceeds context window",
            "input is too long for requested model",
        ],
        marks: &["context_length_exceeded"],
    },
    OutputPattern {
        kind: ReasonCode::QuotaExhausted,
        statuses: &["402"],
        phrases: &[
            "usage limit reached",
            "usage limit exceeded",
            "quota exceeded",
            "exceeded your current quota",
            "quota exhausted",
            "credit balance is too low",
            "insufficient credits",
            "payment required",
            "billing hard limit",
        ],
        marks: &["insufficient_quota", "resource_exhausted: quota"],
    },
    OutputPattern {
        kind: ReasonCode::RateLimited,
        statuses: &["429"],
        phrases: &[
            "too many requests",
            "rate limit exceeded",
            "rate limit reached",
            "rate limit hit",
            "rate limit error",
            "rate limited",
            "secondary rate limit",
            "would exceed your rate limit",
            "toomanyrequests",
        ],
        marks: &["\"rate_limit_error\"", "rate_limit_exceeded"],
    },
    OutputPattern {
        kind: ReasonCode::ProviderOverloaded,
        statuses: &["529"],
        phrases: &[
            "model is overloaded",
            "model is currently overloaded",
            "api is overloaded",
            "service is overloaded",
            "server is overloaded",
            "servers are overloaded",
            "overloaded please try again",
            "at capacity right now",
            "api error overloaded",
            "overloaded_error",
        ],
        // The word alone: functions and operators can be overloaded too.
        marks: &["\"overloaded_error\"", "^overloaded$"],
    },
    OutputPattern {
        kind: ReasonCode::AgentRefused,
        statuses: &[],
        phrases: &["violates our usage policy", "violate our usage policy", "request was refused"],
        marks: &[],
    },
    OutputPattern {
        kind: ReasonCode::TurnLimit,
        statuses: &[],
        phrases: &["reached max turns", "maximum number of turns", "max turns reached"],
        marks: &["error_max_turns"],
    },
    OutputPattern {
        kind: ReasonCode::AuthFailed,
        statuses: &["401", "403"],
        phrases: &[
            "401 unauthorized",
            "403 forbidden",
            "invalid api key",
            "invalid_api_key",
            "incorrect api key",
            "invalid x api key",
            "authentication failed",
            "authentication required",
            "authentication error",
            "bad credentials",
            "invalid credentials",
            "invalid username or password",
            "could not read username",
            "could not read password",
            "permission denied publickey",
            "access token has expired",
            "token has expired",
            "not logged in",
            "please run login",
            "password authentication failed",
            "host key verification failed",
        ],
        marks: &["\"authentication_error\""],
    },
    OutputPattern {
        kind: ReasonCode::PayloadTooLarge,
        statuses: &["413"],
        phrases: &[
            "payload too large",
            "request entity too large",
            "content too large",
            "request body too large",
            "argument list too long",
        ],
        marks: &["\"request_too_large\""],
    },
    OutputPattern {
        kind: ReasonCode::DependencyUnavailable,
        statuses: &["502", "503", "504"],
        phrases: &[
            "service unavailable",
            "service temporarily unavailable",
            "temporarily unavailable",
            "bad gateway",
            "gateway timeout",
            "cannot connect to the docker daemon",
            "is the server running",
            "the database system is starting up",
            "too many connections",
            "too many clients already",
            "database is locked",
        ],
        marks: &[],
    },
    OutputPattern {
        kind: ReasonCode::NetworkError,
        statuses: &[],
        phrases: &[
            "could not resolve host",
            "could not resolve proxy",
            "could not resolve hostname",
            "name resolution",
            "name or service not known",
            "nodename nor servname provided",
            "no such host",
            "getaddrinfo enotfound",
            "getaddrinfo eai_again",
            "connection refused",
            "connection reset",
            "connection reset by peer",
            "connection timed out",
            "connection closed by remote host",
            "connection aborted",
            "operation timed out",
            "failed to connect to",
            "network is unreachable",
            "network is down",
            "no route to host",
            "host is unreachable",
            "tls handshake failed",
            "tls handshake failure",
            "tls handshake timeout",
            "tls handshake error",
            "ssl handshake failed",
            "ssl handshake failure",
            "handshake failure",
            "establish ssl connection",
            "ssl connection error",
            "ssl_error_syscall",
            "socket hang up",
            "the remote end hung up unexpectedly",
            "empty or malformed response",
            "econnrefused",
            "econnreset",
            "etimedout",
            "enetunreach",
            "ehostunreach",
            "i o timeout",
            "spurious network error",
        ],
        marks: &[],
    },
    OutputPattern {
        kind: ReasonCode::HookFailed,
        statuses: &[],
        phrases: &[
            "hook declined",
            "pre commit hook failed",
            "commit msg hook failed",
            "pre push hook failed",
            "pre receive hook failed",
            "hook exited with code",
            "hook exited with error",
            "husky pre commit script failed",
            "husky pre commit hook exited",
            "husky pre push script failed",
            "husky pre push hook exited",
            "husky commit msg script failed",
            "husky commit msg hook exited",
        ],
        marks: &[],
    },
    OutputPattern {
        kind: ReasonCode::PermissionDenied,
        statuses: &[],
        phrases: &[
            "permission denied",
            "operation not permitted",
            "read only file system",
            "access is denied",
            "eacces",
            "eperm",
            "erofs",
        ],
        marks: &["kind: permissiondenied"],
    },
    OutputPattern {
        kind: ReasonCode::PushRejected,
        statuses: &[],
        phrases: &[],
        marks: &["! [rejected]", "! [remote rejected]"],
    },
];

/// Patterns that say only that something did not happen; another line usually says why.
pub(crate) const LAST_RESORT: &[OutputPattern] = &[OutputPattern {
    kind: ReasonCode::PushRejected,
    statuses: &[],
    phrases: &["failed to push some refs"],
    marks: &[],
}];

/// Words by which a test runner gives its verdict.
///
/// Where tests ran, their names, their logs and what they expected stand in the
/// output, and none of it says that this machine or a service had a problem.
pub(crate) const VERDICTS: &[&str] = &[
    "test result failed",
    "short test summary info",
    "test suites",
    "tests run",
    "failed tests",
    "there were failing tests",
    "there are test failures",
    "assertion failed",
    "assertionerror",
    "test session starts",
];

/// The first words of lines that list tests or show code.
pub(crate) const NOT_ERRORS: &[&str] =
    &["test ", "ok ", "not ok ", "pass ", "fail ", "✓", "✔", "✕", "✗", "|"];
