//! Known reasons of failures in the output of programs.

use super::output_patterns::{LAST_RESORT, NOT_ERRORS, OutputPattern, ROWS, VERDICTS};
use crate::failure::{
    ReasonCode,
    signature::{replace_quoted, strip_ansi},
};

/// Returns the reason code that the last lines of an output speak of, if they do.
pub fn reason_from_output(lines: &str) -> Option<ReasonCode> {
    let lines: Vec<SearchableLine> = lines.lines().rev().map(SearchableLine::read).collect();
    if lines.iter().any(SearchableLine::is_verdict) {
        return None;
    }
    let search = |rows: &'static [OutputPattern]| {
        lines
            .iter()
            .filter(|line| !line.is_no_error())
            .find_map(|line| rows.iter().find(|row| line.matches(row)).map(|row| row.kind))
    };
    search(ROWS).or_else(|| search(LAST_RESORT))
}

/// A line of output, made ready to be searched.
struct SearchableLine {
    /// All of it, in lower case.
    whole: String,
    /// Its words with one space before and after each, quoted text left out.
    words: String,
}

impl SearchableLine {
    fn read(line: &str) -> Self {
        let whole = strip_ansi(line).to_lowercase();
        let unquoted = replace_quoted(&whole).replace("<q>", " ");
        let words = unquoted.split(|c: char| !c.is_alphanumeric() && c != '_');
        let mut joined = " ".to_owned();
        for word in words.filter(|word| !word.is_empty()) {
            joined.extend([word, " "]);
        }
        Self { whole: whole.trim().to_owned(), words: joined }
    }

    fn contains_phrase(&self, phrase: &str) -> bool {
        self.words.match_indices(phrase).any(|(at, _)| {
            let before = self.words.get(..at).is_some_and(|text| text.ends_with(' '));
            let after = self.words.get(at + phrase.len()..);
            before && after.is_some_and(|text| text.starts_with(' '))
        })
    }

    fn matches(&self, row: &OutputPattern) -> bool {
        let line = format!("^{}$", self.whole);
        row.phrases.iter().any(|phrase| self.contains_phrase(phrase))
            || row.marks.iter().any(|mark| line.contains(mark))
            || row.statuses.iter().any(|status| self.answers(status))
    }

    /// Returns true if the line reports this HTTP status; the bare number may count anything.
    fn answers(&self, status: &str) -> bool {
        let words: Vec<&str> = self.words.split_whitespace().collect();
        (0..words.len()).any(|at| {
            let before = |distance: usize| {
                at.checked_sub(distance).and_then(|at| words.get(at)).copied().unwrap_or_default()
            };
            let is_named = match before(1) {
                "http" | "status" | "statuscode" | "status_code" | "http_code" => true,
                "code" => matches!(before(2), "status" | "error" | "response" | "http"),
                "error" => matches!(before(2), "returned" | "api" | "http" | "server" | "client"),
                "1" | "0" => before(2) == "1" && before(3) == "http",
                "2" | "3" => before(2) == "http",
                _ => false,
            };
            words.get(at) == Some(&status) && is_named
        })
    }

    /// Returns true if it sums up a run of tests: `3 failed, 429 passed`.
    fn is_verdict(&self) -> bool {
        let words: Vec<&str> = self.words.split_whitespace().collect();
        let counts = |word: &str| {
            words.windows(2).any(|pair| {
                let number = pair.first().is_some_and(|word| word.parse::<u64>().is_ok());
                number && pair.last() == Some(&word)
            })
        };
        let is_sum = counts("failed") && (counts("passed") || counts("total")) || counts("failing");
        let is_go = self.whole.starts_with("--- fail: ") || self.whole.starts_with("fail\t");
        is_sum || is_go || VERDICTS.iter().any(|verdict| self.contains_phrase(verdict))
    }

    /// Returns true if it names a test or shows code, and so reports no error of its own.
    fn is_no_error(&self) -> bool {
        let text = self.whole.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
        NOT_ERRORS.iter().any(|start| text.starts_with(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(outputs: &[&str]) -> String {
        let row = |text: &&str| {
            let kind = reason_from_output(text).map_or("-", ReasonCode::code);
            format!("{kind}: {}", text.escape_debug())
        };
        outputs.iter().map(row).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn what_programs_say_gives_the_code() {
        let outputs = [
            "cp: error writing 'out/a': No space left on device",
            "npm ERR! nospc ENOSPC: no space left on device, write",
            "tee: /var/log/x: Disk quota exceeded",
            "fatal: unable to access 'https://git.example.com/a.git/': Could not resolve host: git.example.com",
            "curl: (7) Failed to connect to localhost port 9 after 0 ms: Connection refused",
            "dial tcp 10.1.2.3:443: i/o timeout",
            "Error: read ECONNRESET\n    at TLSWrap.onStreamRead",
            "net/http: TLS handshake timeout",
            "curl: (22) The requested URL returned error: 429",
            "HTTP/1.1 429 Too Many Requests",
            "Error code: 429 - slow down",
            r#"API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"wait"}}"#,
            "You've hit a secondary rate limit",
            "ERROR 503: Service Unavailable.",
            "requests.exceptions.HTTPError: 401 Client Error: Unauthorized\nHTTP status 401",
            "remote: Invalid username or password.\nfatal: Authentication failed for 'https://x/'",
            "git@github.com: Permission denied (publickey).",
            "Invalid API key · Please run /login",
            "mkdir: cannot create directory 'x': Permission denied",
            "Error: Os { code: 13, kind: PermissionDenied, message: \"Permission denied\" }",
            "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
            "fork: Cannot allocate memory",
            " ! [rejected]        main -> main (fetch first)\nerror: failed to push some refs to 'origin'",
            " ! [remote rejected] main -> main (pre-receive hook declined)\nerror: failed to push some refs to 'origin'",
            "error: failed to push some refs to 'origin'",
            "husky - pre-commit hook exited with code 1 (error)",
            "API Error: prompt is too long: 210000 tokens > 200000 maximum",
            "Claude usage limit reached. Your limit will reset at 3pm.",
            "413 Request Entity Too Large",
            "Reached max turns (30)",
            "\u{1b}[31mconnection refused\u{1b}[0m",
            "working\nOverloaded\n",
            "API Error: Overloaded",
            "error: overloaded_error",
            "openai.AuthenticationError: invalid_api_key",
        ];
        insta::assert_snapshot!(table(&outputs), @r#"
        disk_full: cp: error writing \'out/a\': No space left on device
        disk_full: npm ERR! nospc ENOSPC: no space left on device, write
        disk_full: tee: /var/log/x: Disk quota exceeded
        network_error: fatal: unable to access \'https://git.example.com/a.git/\': Could not resolve host: git.example.com
        network_error: curl: (7) Failed to connect to localhost port 9 after 0 ms: Connection refused
        network_error: dial tcp 10.1.2.3:443: i/o timeout
        network_error: Error: read ECONNRESET\n    at TLSWrap.onStreamRead
        network_error: net/http: TLS handshake timeout
        rate_limited: curl: (22) The requested URL returned error: 429
        rate_limited: HTTP/1.1 429 Too Many Requests
        rate_limited: Error code: 429 - slow down
        provider_overloaded: API Error: 529 {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}
        rate_limited: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"wait\"}}
        rate_limited: You\'ve hit a secondary rate limit
        dependency_unavailable: ERROR 503: Service Unavailable.
        auth_failed: requests.exceptions.HTTPError: 401 Client Error: Unauthorized\nHTTP status 401
        auth_failed: remote: Invalid username or password.\nfatal: Authentication failed for \'https://x/\'
        auth_failed: git@github.com: Permission denied (publickey).
        auth_failed: Invalid API key · Please run /login
        permission_denied: mkdir: cannot create directory \'x\': Permission denied
        permission_denied: Error: Os { code: 13, kind: PermissionDenied, message: \"Permission denied\" }
        oom_killed: FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory
        oom_killed: fork: Cannot allocate memory
        push_rejected:  ! [rejected]        main -> main (fetch first)\nerror: failed to push some refs to \'origin\'
        hook_failed:  ! [remote rejected] main -> main (pre-receive hook declined)\nerror: failed to push some refs to \'origin\'
        push_rejected: error: failed to push some refs to \'origin\'
        hook_failed: husky - pre-commit hook exited with code 1 (error)
        context_overflow: API Error: prompt is too long: 210000 tokens > 200000 maximum
        quota_exhausted: Claude usage limit reached. Your limit will reset at 3pm.
        payload_too_large: 413 Request Entity Too Large
        turn_limit: Reached max turns (30)
        network_error: \u{1b}[31mconnection refused\u{1b}[0m
        provider_overloaded: working\nOverloaded\n
        provider_overloaded: API Error: Overloaded
        provider_overloaded: error: overloaded_error
        auth_failed: openai.AuthenticationError: invalid_api_key
        "#);
    }

    #[test]
    fn what_only_looks_like_it_gives_none() {
        let outputs = [
            "",
            "error: mismatched types",
            "429 passed",
            "error: overloaded function with no contextual type information",
            "Overloaded operators are not allowed",
            "1 failed, 429 passed in 5.03s",
            "found 503 problems (401 errors, 102 warnings)",
            "error: 403 lints found",
            "test handles_rate_limited ... ok\nerror: it broke",
            "test says permission denied ... FAILED",
            "✓ answers 429 too many requests",
            "thread 'x' panicked: permission denied\ntest result: FAILED. 3 passed; 1 failed",
            "--- FAIL: TestDial (0.00s)\n    dial_test.go:9: connection refused",
            "Tests:       1 failed, 3 total\nconnection refused",
            "AssertionError: connection refused is not what was expected",
            "12 |     return Err(\"no space left on device\");",
            "   |     ^ permission denied",
            "expected \"connection refused\", found `timed out`",
            "the step timed out",
            "line 429: syntax error",
            "exit code 503",
            "processed 401 of 403 files",
            "* TLSv1.3 (OUT), TLS handshake, Client hello (1):",
            "the quota of the plan is generous",
            "test_rate_limit_exceeded is slow",
            "src/network/connection_refused.rs has no tests",
        ];
        insta::assert_snapshot!(table(&outputs), @r#"
        -: 
        -: error: mismatched types
        -: 429 passed
        -: error: overloaded function with no contextual type information
        -: Overloaded operators are not allowed
        -: 1 failed, 429 passed in 5.03s
        -: found 503 problems (401 errors, 102 warnings)
        -: error: 403 lints found
        -: test handles_rate_limited ... ok\nerror: it broke
        -: test says permission denied ... FAILED
        -: ✓ answers 429 too many requests
        -: thread \'x\' panicked: permission denied\ntest result: FAILED. 3 passed; 1 failed
        -: --- FAIL: TestDial (0.00s)\n    dial_test.go:9: connection refused
        -: Tests:       1 failed, 3 total\nconnection refused
        -: AssertionError: connection refused is not what was expected
        -: 12 |     return Err(\"no space left on device\");
        -:    |     ^ permission denied
        -: expected \"connection refused\", found `timed out`
        -: the step timed out
        -: line 429: syntax error
        -: exit code 503
        -: processed 401 of 403 files
        -: * TLSv1.3 (OUT), TLS handshake, Client hello (1):
        -: the quota of the plan is generous
        rate_limited: test_rate_limit_exceeded is slow
        -: src/network/connection_refused.rs has no tests
        "#);
    }
}
