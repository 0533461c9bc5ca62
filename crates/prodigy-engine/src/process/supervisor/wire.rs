//! The words between us and a supervisor.
//!
//! A frame is its length in four bytes and then a body. Both sides are the same
//! binary, so there are no versions; and the body is written by hand because a
//! launch is mostly bytes that need not be text, which JSON makes several times
//! larger and slower.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    time::Duration,
};

use crate::process::{CapturedOutput, Launch, ProcessOutcome, ProcessStatus, TerminationReason};

/// The requests to a supervisor.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SupervisorRequest {
    /// Run this.
    Launch(Box<Launch>),
    /// End what is running.
    Stop {
        /// Without any grace.
        now: bool,
    },
    /// End what is running, because whoever listens to it has heard enough.
    Enough,
}

/// The replies of a supervisor.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SupervisorReply {
    /// It is ready for the first launch.
    Ready,
    /// The program printed this, masked: a piece of it, and not a line.
    Output(Vec<u8>),
    /// The launch has ended.
    Ended(Box<ProcessOutcome>),
    /// The launch was not started because its log cannot be written.
    LogFailed {
        /// The log, and why.
        message: String,
    },
}

/// The size of a frame's length field, in bytes.
const HEADER: usize = 4;

/// The other side does not speak our language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message makes no sense")]
pub(crate) struct WireError;

/// Bytes that came in, cut into frames.
#[derive(Debug, Default)]
pub(crate) struct FrameBuffer {
    /// The received bytes, to be appended to when there is no whole frame left.
    pub(crate) bytes: Vec<u8>,
    taken: usize,
}

impl FrameBuffer {
    /// Returns the body of the next frame if all of it is there.
    pub(crate) fn next(&mut self) -> Option<&[u8]> {
        let rest = self.bytes.get(self.taken..).unwrap_or_default();
        let length = rest.split_first_chunk().map(|(length, _)| u32::from_le_bytes(*length));
        let whole = HEADER + length.unwrap_or_default() as usize;
        if whole <= rest.len() {
            let body = self.taken + HEADER;
            self.taken += whole;
            return self.bytes.get(body..self.taken);
        }
        // Many small frames come in at once, so what was taken is cut off only here.
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.reserve(whole - self.bytes.len());
        None
    }
}

/// Appends a frame that asks for a launch.
pub(crate) fn encode_launch(launch: &Launch, out: &mut Vec<u8>) -> Result<(), WireError> {
    frame(out, |out| {
        out.push(1);
        put_list(out, &launch.argv, |out, arg| put_bytes(out, arg.as_bytes()));
        put_list(out, &launch.env, |out, (name, value)| {
            put_bytes(out, name.as_bytes());
            put_bytes(out, value.as_bytes());
        });
        put_bytes(out, launch.cwd.as_os_str().as_bytes());
        put_option(out, launch.root.as_ref(), |out, root| {
            put_bytes(out, root.as_os_str().as_bytes());
        });
        put_bytes(out, &launch.stdin);
        put_option(out, launch.log.as_ref(), |out, (stdout, stderr)| {
            put_bytes(out, stdout.as_os_str().as_bytes());
            put_bytes(out, stderr.as_os_str().as_bytes());
        });
        put_u64(out, launch.log_cap);
        put_option(out, launch.timeout.as_ref(), |out, time| put_duration(out, *time));
        put_option(out, launch.idle_timeout.as_ref(), |out, time| put_duration(out, *time));
        put_duration(out, launch.grace);
        put_list(out, &launch.secrets, |out, secret| put_bytes(out, secret.as_bytes()));
        out.push(u8::from(launch.stream));
    })
}

/// Appends a frame that asks for an end.
pub(crate) fn encode_stop(now: bool, out: &mut Vec<u8>) -> Result<(), WireError> {
    frame(out, |out| out.extend([2, u8::from(now)]))
}

/// Appends a frame that asks for an end because enough was heard.
pub(crate) fn encode_enough(out: &mut Vec<u8>) -> Result<(), WireError> {
    frame(out, |out| out.push(3))
}

/// Appends a frame with a piece of what the program printed.
pub(crate) fn encode_output(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), WireError> {
    frame(out, |out| encode_piece(bytes, out))
}

/// Appends a frame that answers.
pub(crate) fn encode_reply(reply: &SupervisorReply, out: &mut Vec<u8>) -> Result<(), WireError> {
    frame(out, |out| match reply {
        SupervisorReply::Ready => out.push(1),
        SupervisorReply::Ended(ended) => {
            out.push(2);
            put_ended(out, ended);
        }
        SupervisorReply::LogFailed { message } => {
            out.push(3);
            put_bytes(out, message.as_bytes());
        }
        SupervisorReply::Output(bytes) => encode_piece(bytes, out),
    })
}

/// Reads what a supervisor is asked.
pub(crate) fn decode_request(body: &[u8]) -> Result<SupervisorRequest, WireError> {
    let mut body = BodyDecoder(body);
    match body.u8()? {
        1 => Ok(SupervisorRequest::Launch(Box::new(Launch {
            argv: body.list(BodyDecoder::os_string)?,
            env: body.list(|body| Ok((body.os_string()?, body.os_string()?)))?,
            cwd: body.os_string()?.into(),
            root: body.option(|body| Ok(body.os_string()?.into()))?,
            stdin: body.bytes()?.to_vec(),
            log: body.option(|body| Ok((body.os_string()?.into(), body.os_string()?.into())))?,
            log_cap: body.u64()?,
            timeout: body.option(BodyDecoder::duration)?,
            idle_timeout: body.option(BodyDecoder::duration)?,
            grace: body.duration()?,
            secrets: body.list(BodyDecoder::string)?,
            stream: body.u8()? != 0,
        }))),
        2 => Ok(SupervisorRequest::Stop { now: body.u8()? != 0 }),
        3 => Ok(SupervisorRequest::Enough),
        _ => Err(WireError),
    }
}

/// Reads what a supervisor answers.
pub(crate) fn decode_reply(body: &[u8]) -> Result<SupervisorReply, WireError> {
    let mut body = BodyDecoder(body);
    match body.u8()? {
        1 => Ok(SupervisorReply::Ready),
        2 => Ok(SupervisorReply::Ended(Box::new(body.ended()?))),
        3 => Ok(SupervisorReply::LogFailed { message: body.string()? }),
        4 => Ok(SupervisorReply::Output(body.0.to_vec())),
        _ => Err(WireError),
    }
}

/// Appends a frame with the body that `put` writes.
fn frame(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) -> Result<(), WireError> {
    let start = out.len();
    put_u32(out, 0);
    put(out);
    let length = u32::try_from(out.len() - start - 4).map_err(|_| WireError)?;
    let header = out.get_mut(start..start + 4).ok_or(WireError)?;
    header.copy_from_slice(&length.to_le_bytes());
    Ok(())
}

fn encode_piece(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(4);
    out.extend_from_slice(bytes);
}

fn put_ended(out: &mut Vec<u8>, ended: &ProcessOutcome) {
    match &ended.status {
        ProcessStatus::Exited(code) => {
            out.push(1);
            out.extend(code.to_le_bytes());
        }
        ProcessStatus::Signaled(signal) => {
            out.push(2);
            out.extend(signal.to_le_bytes());
        }
        ProcessStatus::NotStarted { errno, message } => {
            out.push(3);
            put_option(out, errno.as_ref(), |out, errno| out.extend(errno.to_le_bytes()));
            put_bytes(out, message.as_bytes());
        }
    }
    out.push(match ended.ended_by {
        None => 0,
        Some(TerminationReason::Timeout) => 1,
        Some(TerminationReason::Idle) => 2,
        Some(TerminationReason::Stop) => 3,
        Some(TerminationReason::Listener) => 4,
    });
    for printed in [&ended.stdout, &ended.stderr] {
        put_bytes(out, &printed.head);
        put_bytes(out, &printed.tail);
        put_u64(out, printed.total);
        put_u64(out, printed.log_at);
        put_u64(out, printed.log_len);
    }
    put_duration(out, ended.duration);
    put_u32(out, ended.leftovers);
    put_u32(out, ended.survivors);
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend(value.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend(value.to_le_bytes());
}

fn put_duration(out: &mut Vec<u8>, value: Duration) {
    put_u64(out, value.as_secs());
    put_u32(out, value.subsec_nanos());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_list<T>(out: &mut Vec<u8>, list: &[T], put: impl Fn(&mut Vec<u8>, &T)) {
    put_u64(out, list.len() as u64);
    for item in list {
        put(out, item);
    }
}

fn put_option<T>(out: &mut Vec<u8>, value: Option<&T>, put: impl Fn(&mut Vec<u8>, &T)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

/// The unread rest of a body.
struct BodyDecoder<'a>(&'a [u8]);

impl<'a> BodyDecoder<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(WireError)?;
        self.0 = rest;
        Ok(*array)
    }

    fn u8(&mut self) -> Result<u8, WireError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn i32(&mut self) -> Result<i32, WireError> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn duration(&mut self) -> Result<Duration, WireError> {
        let seconds = self.u64()?;
        let nanoseconds = self.u32()?;
        if nanoseconds >= 1_000_000_000 {
            return Err(WireError);
        }
        Ok(Duration::new(seconds, nanoseconds))
    }

    fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        let length = usize::try_from(self.u64()?).map_err(|_| WireError)?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(WireError)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn os_string(&mut self) -> Result<OsString, WireError> {
        Ok(OsStr::from_bytes(self.bytes()?).to_owned())
    }

    fn string(&mut self) -> Result<String, WireError> {
        String::from_utf8(OsString::into_vec(self.os_string()?)).map_err(|_| WireError)
    }

    fn list<T>(
        &mut self,
        item: impl Fn(&mut Self) -> Result<T, WireError>,
    ) -> Result<Vec<T>, WireError> {
        let length = self.u64()?;
        // Collecting does not reserve for the length, which may be a lie.
        (0..length).map(|_| item(self)).collect()
    }

    fn option<T>(
        &mut self,
        value: impl Fn(&mut Self) -> Result<T, WireError>,
    ) -> Result<Option<T>, WireError> {
        if self.u8()? == 0 { Ok(None) } else { value(self).map(Some) }
    }

    fn ended(&mut self) -> Result<ProcessOutcome, WireError> {
        Ok(ProcessOutcome {
            status: self.status()?,
            ended_by: match self.u8()? {
                0 => None,
                1 => Some(TerminationReason::Timeout),
                2 => Some(TerminationReason::Idle),
                3 => Some(TerminationReason::Stop),
                4 => Some(TerminationReason::Listener),
                _ => return Err(WireError),
            },
            stdout: self.printed()?,
            stderr: self.printed()?,
            duration: self.duration()?,
            leftovers: self.u32()?,
            survivors: self.u32()?,
            // Whoever started the supervisor looks for that.
            oom_killed: false,
        })
    }

    fn status(&mut self) -> Result<ProcessStatus, WireError> {
        match self.u8()? {
            1 => Ok(ProcessStatus::Exited(self.i32()?)),
            2 => Ok(ProcessStatus::Signaled(self.i32()?)),
            3 => Ok(ProcessStatus::NotStarted {
                errno: self.option(Self::i32)?,
                message: self.string()?,
            }),
            _ => Err(WireError),
        }
    }

    fn printed(&mut self) -> Result<CapturedOutput, WireError> {
        Ok(CapturedOutput {
            head: self.bytes()?.to_vec(),
            tail: self.bytes()?.to_vec(),
            total: self.u64()?,
            log_at: self.u64()?,
            log_len: self.u64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn launch() -> Launch {
        Launch {
            argv: vec!["sh".into(), OsString::from_vec(vec![0xff, b'x'])],
            env: vec![("PATH".into(), "/bin".into())],
            cwd: "/tmp".into(),
            root: Some("/".into()),
            stdin: vec![0, 1, 2],
            log: Some(("out".into(), "err".into())),
            log_cap: 7,
            timeout: Some(Duration::from_millis(1500)),
            idle_timeout: None,
            grace: Duration::from_secs(10),
            secrets: vec!["höhle".into()],
            stream: true,
        }
    }

    fn ended(status: ProcessStatus, ended_by: Option<TerminationReason>) -> ProcessOutcome {
        let printed = |head: &[u8]| CapturedOutput {
            head: head.into(),
            tail: b"tail".into(),
            total: 1,
            log_at: 2,
            log_len: 3,
        };
        ProcessOutcome {
            status,
            ended_by,
            stdout: printed(b"out"),
            stderr: printed(b"err"),
            duration: Duration::from_nanos(1_000_000_005),
            leftovers: 4,
            survivors: 5,
            oom_killed: false,
        }
    }

    #[test]
    fn requests_arrive_as_they_were_sent() {
        let mut inbox = FrameBuffer::default();
        encode_launch(&launch(), &mut inbox.bytes).unwrap();
        encode_stop(true, &mut inbox.bytes).unwrap();
        encode_enough(&mut inbox.bytes).unwrap();
        assert_eq!(
            decode_request(inbox.next().unwrap()),
            Ok(SupervisorRequest::Launch(Box::new(launch())))
        );
        assert_eq!(
            decode_request(inbox.next().unwrap()),
            Ok(SupervisorRequest::Stop { now: true })
        );
        assert_eq!(decode_request(inbox.next().unwrap()), Ok(SupervisorRequest::Enough));
        assert_eq!(inbox.next(), None);
    }

    #[test]
    fn replies_arrive_as_they_were_sent() {
        let not_started = ProcessStatus::NotStarted { errno: Some(2), message: "no".into() };
        for sent in [
            SupervisorReply::Ready,
            SupervisorReply::LogFailed { message: "full".into() },
            SupervisorReply::Output(vec![0, 0xff, b'\n']),
            SupervisorReply::Ended(Box::new(ended(ProcessStatus::Exited(-1), None))),
            SupervisorReply::Ended(Box::new(ended(
                ProcessStatus::Signaled(9),
                Some(TerminationReason::Timeout),
            ))),
            SupervisorReply::Ended(Box::new(ended(
                ProcessStatus::Exited(0),
                Some(TerminationReason::Idle),
            ))),
            SupervisorReply::Ended(Box::new(ended(not_started, Some(TerminationReason::Stop)))),
            SupervisorReply::Ended(Box::new(ended(
                ProcessStatus::Signaled(15),
                Some(TerminationReason::Listener),
            ))),
        ] {
            let mut inbox = FrameBuffer::default();
            encode_reply(&sent, &mut inbox.bytes).unwrap();
            assert_eq!(decode_reply(inbox.next().unwrap()), Ok(sent));
        }
    }

    proptest! {
        #[test]
        fn nonsense_is_refused_and_never_panics(body in prop::collection::vec(any::<u8>(), 0..80)) {
            decode_request(&body).ok();
            decode_reply(&body).ok();
        }

        #[test]
        fn frames_may_come_in_any_pieces(cuts in prop::collection::vec(1_usize..40, 1..20)) {
            let mut bytes = Vec::new();
            encode_launch(&launch(), &mut bytes).unwrap();
            encode_stop(false, &mut bytes).unwrap();
            let mut inbox = FrameBuffer::default();
            let mut seen = Vec::new();
            let mut rest = bytes.as_slice();
            for cut in cuts.iter().cycle() {
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                inbox.bytes.extend(piece);
                while let Some(body) = inbox.next() {
                    seen.push(decode_request(body).unwrap());
                }
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(
                seen,
                [SupervisorRequest::Launch(Box::new(launch())), SupervisorRequest::Stop { now: false }]
            );
        }
    }
}
