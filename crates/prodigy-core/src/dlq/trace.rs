//! Finding the place where a program broke off in what it printed last.

/// The most of a trace that is kept, in bytes.
const LIMIT: usize = 4096;
/// The start of the line with which Java begins the trace of a cause.
const CAUSE: &str = "Caused by: ";

/// Returns the part of a program's last output that shows where it broke off.
///
/// The forms known are those of Rust, Python, Java, JavaScript and Go. If there are several,
/// the last one counts: it is the one that ended the program.
pub(super) fn stack_trace(output: &str) -> Option<String> {
    let lines: Vec<&str> = output.lines().collect();
    let panic = lines.iter().rposition(|line| begins(line));
    let goroutine = || lines.iter().position(|line| is_goroutine(line));
    let start = panic.or_else(goroutine).or_else(|| first_frame(&lines))?;
    let rest = lines.get(start..).unwrap_or_default();
    let length = 1 + rest.iter().skip(1).take_while(|line| continues_trace(line, rest)).count();
    let trace = rest.get(..length).unwrap_or_default().join("\n");
    let trace = trace.trim_end();
    let end = (0..=LIMIT.min(trace.len())).rev().find(|end| trace.is_char_boundary(*end));
    trace.get(..end.unwrap_or_default()).filter(|trace| !trace.is_empty()).map(str::to_owned)
}

/// Returns whether a line is the first of a trace.
fn begins(line: &str) -> bool {
    let is_rust = line.starts_with("thread '") && line.contains("panicked at");
    let is_go = line.starts_with("panic: ") || line.starts_with("fatal error: ");
    is_rust || is_go || line.starts_with("Traceback (most recent call last)")
}

/// Returns whether a line is the heading of what Go prints for one of its routines.
fn is_goroutine(line: &str) -> bool {
    line.starts_with("goroutine ") && line.ends_with(':')
}

/// Returns the line before the first frame, which says what went wrong.
fn first_frame(lines: &[&str]) -> Option<usize> {
    let last = lines.iter().rposition(|line| is_frame(line))?;
    let before = lines.get(..last)?;
    let is_other = |line: &&str| !is_frame(line) && !line.starts_with(CAUSE);
    let first = before.iter().rposition(is_other).map_or(0, |at| at + 1);
    Some(first.saturating_sub(1))
}

/// Returns whether a line is a frame as Java and JavaScript print it.
fn is_frame(line: &str) -> bool {
    line.starts_with(char::is_whitespace) && line.trim_start().starts_with("at ")
}

/// Returns whether a line goes on with the trace that begins with `trace`.
fn continues_trace(line: &str, trace: &[&str]) -> bool {
    let first = trace.first().copied().unwrap_or_default();
    if first.starts_with("Traceback") {
        // The frames are indented; the error itself is not, and ends the trace.
        let at = trace.iter().position(|other| std::ptr::eq(*other, line)).unwrap_or_default();
        let before = trace.get(1..at).unwrap_or_default();
        return before.iter().all(|line| line.starts_with(' '));
    }
    if is_frame(trace.get(1).copied().unwrap_or_default()) {
        return is_frame(line) || line.starts_with(CAUSE);
    }
    // Rust and Go print what they have to say to the end.
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_of_a_program_is_found_in_its_output() {
        let outputs = [
            "running 1 test\nthread 'main' panicked at src/main.rs:42:5:\nindex out of bounds\nnote: run with `RUST_BACKTRACE=1`",
            "collected 3 items\nTraceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    f()\n  File \"a.py\", line 1, in f\nValueError: no\nmake: *** [test] Error 1",
            "> test\n/x/a.js:3\nTypeError: x is not a function\n    at f (/x/a.js:3:9)\n    at main (/x/a.js:7:1)\n\nNode.js v20",
            "Exception in thread \"main\" java.lang.Error: no\n\tat a.B.c(B.java:1)\nCaused by: java.io.IOException\n\tat a.B.d(B.java:2)\nBUILD FAILED",
            "panic: no\n\ngoroutine 1 [running]:\nmain.main()\n\t/x/a.go:4 +0x1d\nexit status 2",
            "error: it did not work\nlook at the documentation",
            "",
        ];
        let traces = outputs.map(|output| stack_trace(output).unwrap_or("none".to_owned()));
        insta::assert_snapshot!(traces.join("\n---\n"), @r#"
        thread 'main' panicked at src/main.rs:42:5:
        index out of bounds
        note: run with `RUST_BACKTRACE=1`
        ---
        Traceback (most recent call last):
          File "a.py", line 3, in <module>
            f()
          File "a.py", line 1, in f
        ValueError: no
        ---
        TypeError: x is not a function
            at f (/x/a.js:3:9)
            at main (/x/a.js:7:1)
        ---
        Exception in thread "main" java.lang.Error: no
        	at a.B.c(B.java:1)
        Caused by: java.io.IOException
        	at a.B.d(B.java:2)
        ---
        panic: no

        goroutine 1 [running]:
        main.main()
        	/x/a.go:4 +0x1d
        exit status 2
        ---
        none
        ---
        none
        "#);
    }

    #[test]
    fn a_trace_is_bounded_and_ends_with_a_whole_character() {
        let output = format!("thread 'main' panicked at {}", "é".repeat(LIMIT));
        let trace = stack_trace(&output).unwrap();
        assert!(trace.len() <= LIMIT && trace.ends_with('é'), "{}", trace.len());
    }
}
