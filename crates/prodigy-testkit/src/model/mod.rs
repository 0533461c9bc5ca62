//! A model that does what a script says, for tests with real agents and no account.
//!
//! It is a small web server on this machine that speaks the languages of Claude Code (the
//! Messages API) and Codex (the Responses API). The agents are the real programs: they are
//! only told another address. What they ask is recorded, so that a test can count them.

mod client_process;
mod http;
mod messages;
mod reply;
mod request;
mod responses;
mod script;

use std::{
    collections::HashMap,
    io,
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime},
};

use serde_json::json;

use self::{
    http::{HttpConnection, HttpRequest},
    reply::reply,
    script::ScriptProgress,
};

pub use self::script::{BehaviourSequence, ModelBehaviour, ModelScript};
pub use request::{ModelApi, ModelRequest};

/// A running model. Dropping it closes every connection and waits for its threads.
#[derive(Debug)]
pub struct ScriptedModel {
    address: SocketAddr,
    stage: Arc<ModelServer>,
    accepting: Option<JoinHandle<()>>,
}

/// The state that the threads of a model share.
#[derive(Debug)]
struct ModelServer {
    script: ModelScript,
    heard: Mutex<RequestLog>,
    news: Condvar,
    /// Open connections; nothing once the model is dropped.
    open: Mutex<Option<HashMap<usize, TcpStream>>>,
}

/// The requests so far.
#[derive(Debug, Default)]
struct RequestLog {
    requests: Vec<ModelRequest>,
    progress: ScriptProgress,
}

impl ScriptedModel {
    /// Starts a model at an address of this machine that the system chooses.
    pub fn start(script: ModelScript) -> Self {
        Self::start_at(script, 0).unwrap()
    }

    /// Starts a model at a port of this machine; 0 lets the system choose.
    pub fn start_at(script: ModelScript, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port))?;
        let address = listener.local_addr()?;
        let stage = Arc::new(ModelServer {
            script,
            heard: Mutex::default(),
            news: Condvar::new(),
            open: Mutex::new(Some(HashMap::new())),
        });
        let shared = Arc::clone(&stage);
        let accepting = thread::spawn(move || accept(&listener, &shared));
        Ok(Self { address, stage, accepting: Some(accepting) })
    }

    /// Returns the address for Claude Code: `ANTHROPIC_BASE_URL`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the address for Codex: `base_url` of a model provider.
    pub fn responses_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns everything that was asked so far.
    pub fn requests(&self) -> Vec<ModelRequest> {
        lock(&self.stage.heard).requests.clone()
    }

    /// Returns the beginnings of turns so far: one for each agent that was started and got
    /// as far as to ask, and one more for each time that it asked the same again.
    pub fn turns(&self) -> Vec<ModelRequest> {
        self.requests().into_iter().filter(|request| request.begins).collect()
    }

    /// Returns the beginnings of turns for one item.
    pub fn turns_of(&self, item: &str) -> Vec<ModelRequest> {
        self.turns().into_iter().filter(|request| request.item() == item).collect()
    }

    /// Waits until so many turns have begun; fails the test after `limit`.
    pub fn wait_for_turns(&self, count: usize, limit: Duration) {
        let began = Instant::now();
        let mut heard = lock(&self.stage.heard);
        loop {
            let turns = heard.requests.iter().filter(|request| request.begins).count();
            if turns >= count {
                return;
            }
            let left = limit.saturating_sub(began.elapsed());
            assert!(!left.is_zero(), "{turns} of {count} turns began within {limit:?}");
            let waited = self.stage.news.wait_timeout(heard, left);
            heard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        for connection in lock(&self.stage.open).take().unwrap_or_default().into_values() {
            // It may have ended by itself.
            connection.shutdown(Shutdown::Both).ok();
        }
        // Wakes the thread that waits for the next connection.
        drop(TcpStream::connect_timeout(&self.address, Duration::from_secs(5)));
        if let Some(accepting) = self.accepting.take() {
            // A panic in it was shown already, and a second one in a drop would abort.
            accepting.join().ok();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes connections until the model is dropped, then waits for all of them to end.
fn accept(listener: &TcpListener, stage: &Arc<ModelServer>) {
    let mut serving: Vec<JoinHandle<()>> = Vec::new();
    for (number, stream) in listener.incoming().enumerate() {
        let Ok((stream, known)) = stream.and_then(|stream| Ok((stream.try_clone()?, stream)))
        else {
            continue;
        };
        match lock(&stage.open).as_mut() {
            Some(open) => drop(open.insert(number, known)),
            None => break,
        }
        let shared = Arc::clone(stage);
        serving.retain(|thread| !thread.is_finished());
        serving.push(thread::spawn(move || {
            // A client that goes in the middle is what some scripts are about.
            serve(stream, &shared).ok();
            if let Some(open) = lock(&shared.open).as_mut()
                && let Some(known) = open.remove(&number)
            {
                known.shutdown(Shutdown::Both).ok();
            }
        }));
    }
    for thread in serving {
        thread.join().ok();
    }
}

/// Answers one client until it has no more to ask.
fn serve(stream: TcpStream, stage: &ModelServer) -> io::Result<()> {
    let mut connection = HttpConnection::new(stream)?;
    while let Some(message) = connection.next()? {
        if !answer(&mut connection, &message, stage)? {
            return Ok(());
        }
    }
    Ok(())
}

/// Answers one request; says whether the connection can be used again.
fn answer(
    connection: &mut HttpConnection,
    message: &HttpRequest,
    stage: &ModelServer,
) -> io::Result<bool> {
    let path = message.path.split('?').next().unwrap_or_default();
    let api = match (message.method.as_str(), path) {
        ("POST", "/v1/messages") => ModelApi::Messages,
        ("POST", "/v1/responses") => ModelApi::Responses,
        ("POST", "/v1/messages/count_tokens") => {
            let body = json!({ "input_tokens": 10 });
            return connection.document(200, &[], &body, true).map(|()| true);
        }
        (method, _other) => {
            let body = json!({ "object": "list", "data": [], "models": [] });
            return connection.document(200, &[], &body, method != "HEAD").map(|()| true);
        }
    };
    let now = SystemTime::now();
    let request = match api {
        ModelApi::Messages => messages::read(message, now),
        ModelApi::Responses => responses::read(message, now),
    };
    let (behaviour, number) = stage.next_behaviour(&request, now);
    let reply = reply(&behaviour, &request.item(), request.results);
    match api {
        ModelApi::Messages => messages::write(connection, &request, reply, number),
        ModelApi::Responses => responses::write(connection, &request, reply, number),
    }
}

impl ModelServer {
    /// Records a request and returns what is to be done, and which request it is.
    fn next_behaviour(&self, request: &ModelRequest, now: SystemTime) -> (ModelBehaviour, usize) {
        let mut heard = lock(&self.heard);
        let ModelRequest { session, prompts, begins, .. } = request;
        let behaviour = heard.progress.choose(&self.script, session, prompts, *begins, now);
        heard.requests.push(request.clone());
        self.news.notify_all();
        (behaviour, heard.requests.len())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    /// Sends a request to the Messages API and returns the connection.
    fn asked(model: &ScriptedModel, prompt: &str) -> TcpStream {
        let body = json!({ "model": "m", "messages": [{ "role": "user", "content": prompt }] });
        let body = body.to_string();
        let mut stream = TcpStream::connect(model.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let length = body.len();
        write!(stream, "POST /v1/messages HTTP/1.1\r\ncontent-length: {length}\r\n\r\n{body}")
            .unwrap();
        stream
    }

    #[test]
    fn dropping_a_model_that_hangs_ends_the_connection() {
        let model = ScriptedModel::start(ModelScript::new(ModelBehaviour::Hang));
        let mut stream = asked(&model, "work item=a");
        model.wait_for_turns(1, Duration::from_secs(10));
        drop(model);
        assert_eq!(stream.read(&mut [0; 10]).unwrap(), 0);
    }

    #[test]
    fn what_was_asked_is_recorded_and_answered() {
        let model =
            ScriptedModel::start(ModelScript::new(ModelBehaviour::Answer("hello".to_owned())));
        let mut stream = asked(&model, "work item=a");
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(r#""text":"hello""#), "{answer}");
        let turns = model.turns_of("a");
        assert_eq!(turns.len(), 1);
        assert_eq!((turns[0].prompt(), turns[0].model.as_str()), ("work item=a", "m"));
    }
}
