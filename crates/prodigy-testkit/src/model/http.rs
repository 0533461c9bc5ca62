//! As much of HTTP as the agents' clients need.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use serde_json::Value;

use super::client_process;

/// The longest that one answer may take to be taken.
const WRITE_LIMIT: Duration = Duration::from_secs(30);

/// The longest body that is read.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// One request.
#[derive(Debug)]
pub(super) struct HttpRequest {
    /// The method, in capitals.
    pub(super) method: String,
    /// The path, with what follows a question mark.
    pub(super) path: String,
    /// The names, in small letters, and values of the headers.
    pub(super) headers: Vec<(String, String)>,
    /// The body.
    pub(super) body: Value,
}

impl HttpRequest {
    /// Returns a header, or nothing.
    pub(super) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }
}

/// A connection to a client.
#[derive(Debug)]
pub(super) struct HttpConnection {
    reader: BufReader<TcpStream>,
}

impl HttpConnection {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_write_timeout(Some(WRITE_LIMIT))?;
        stream.set_nodelay(true)?;
        Ok(Self { reader: BufReader::new(stream) })
    }

    /// Returns the next request, or nothing when the client has gone.
    pub(super) fn next(&mut self) -> io::Result<Option<HttpRequest>> {
        let Some(first) = self.line()? else { return Ok(None) };
        let mut words = first.split(' ');
        let (method, path) = (word(words.next()), word(words.next()));
        let mut headers = Vec::new();
        while let Some(line) = self.line()?
            && !line.is_empty()
        {
            if let Some((name, value)) = line.split_once(':') {
                headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
            }
        }
        let mut message = HttpRequest { method, path, headers, body: Value::Null };
        let length: usize = message.header("content-length").parse().unwrap_or(0);
        let mut body = vec![0; length.min(MOST_BYTES)];
        self.reader.read_exact(&mut body)?;
        message.body = serde_json::from_slice(&body).unwrap_or_default();
        Ok(Some(message))
    }

    fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        let read = self.reader.read_line(&mut line)?;
        Ok((read > 0).then(|| line.trim_end().to_owned()))
    }

    /// Answers with a document.
    pub(super) fn document(
        &mut self,
        status: u16,
        headers: &[(&str, String)],
        body: &Value,
        is_shown: bool,
    ) -> io::Result<()> {
        let body = body.to_string();
        let mut head = format!("HTTP/1.1 {status} Scripted\r\ncontent-type: application/json\r\n");
        for (name, value) in headers {
            head.extend([*name, ": ", value.as_str(), "\r\n"]);
        }
        head.extend(["content-length: ", &body.len().to_string(), "\r\n\r\n"]);
        self.send(&head)?;
        if is_shown { self.send(&body) } else { Ok(()) }
    }

    /// Begins to answer with events; the connection ends with the last of them.
    pub(super) fn begin_events(&mut self) -> io::Result<()> {
        self.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
    }

    /// Sends one event, named after its type.
    pub(super) fn event(&mut self, event: &Value) -> io::Result<()> {
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
        self.send(&format!("event: {kind}\ndata: {event}\n\n"))
    }

    /// Sends text as it is.
    pub(super) fn send(&mut self, text: &str) -> io::Result<()> {
        self.reader.get_mut().write_all(text.as_bytes())
    }

    /// Kills the program that asks.
    pub(super) fn kill(&mut self) -> io::Result<()> {
        let peer = self.reader.get_ref().peer_addr()?;
        if client_process::kill(peer) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    /// Says nothing for so long, or for ever; ends early when the client goes.
    pub(super) fn silence(&mut self, wait: Option<Duration>) -> io::Result<()> {
        if wait.is_some_and(|wait| wait.is_zero()) {
            return Ok(());
        }
        let stream = self.reader.get_mut();
        stream.set_read_timeout(wait)?;
        let read = stream.read(&mut [0]);
        stream.set_read_timeout(None)?;
        match read {
            // The client went, or the server is dropped.
            Ok(_) => Err(io::ErrorKind::ConnectionAborted.into()),
            Err(error) if is_timeout(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn word(word: Option<&str>) -> String {
    word.unwrap_or_default().to_owned()
}
