//! The transport of a server that is a program: one message per line, in and out.

use std::io;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Mutex;

use crate::config::Program;
use crate::failure::Failure;
use crate::process::{Pipes, Process};
use crate::wire::{MAX_MESSAGE, Wire};

/// The connection to a running program.
pub(crate) struct Stdio {
    wire: Arc<Wire>,
    process: Process,
    input: Arc<Mutex<Option<ChildStdin>>>,
    output: BufReader<ChildStdout>,
    /// What there is of a line. A wait for the rest may be given up and begun again.
    line: Vec<u8>,
}

impl Stdio {
    /// Starts the program.
    pub(crate) fn start(program: &Program, wire: Arc<Wire>) -> io::Result<Self> {
        let (process, Pipes { input, output }) = Process::start(program, Arc::clone(wire.log()))?;
        Ok(Self {
            wire,
            process,
            input: Arc::new(Mutex::new(Some(input))),
            output: BufReader::with_capacity(64 << 10, output),
            line: Vec::new(),
        })
    }

    /// Reads on until there is a whole line. Says no when there is none any more.
    async fn read_line(&mut self) -> Result<bool, Failure> {
        loop {
            let (used, complete) = {
                let read = self.output.fill_buf().await;
                let read = read.map_err(|error| Failure::lost(&error.to_string()))?;
                if read.is_empty() {
                    return Ok(false);
                }
                let end = read.iter().position(|&byte| byte == b'\n');
                let text = &read[..end.unwrap_or(read.len())];
                if self.line.len() + text.len() > MAX_MESSAGE {
                    return Err(Failure::too_large(MAX_MESSAGE));
                }
                self.line.extend_from_slice(text);
                (end.map_or(read.len(), |end| end + 1), end.is_some())
            };
            self.output.consume(used);
            if complete {
                return Ok(true);
            }
        }
    }

    /// Returns the message of the line that was read, if the library is to see it.
    fn message(&mut self) -> Option<ServerJsonRpcMessage> {
        let line = std::mem::take(&mut self.line);
        let text = line.trim_ascii();
        if text.is_empty() {
            return None;
        }
        let Ok(message) = serde_json::from_slice::<Value>(text) else {
            self.wire.junk(text);
            return None;
        };
        let message = self.wire.incoming(message)?;
        serde_json::from_value(message).ok()
    }

    /// Says how the program ended.
    async fn farewell(&mut self) -> Failure {
        match self.process.ended().await {
            Some(status) => Failure::lost(&format!("its program ended ({status})")),
            None => Failure::lost("its program closed its standard output"),
        }
    }
}

impl Transport<RoleClient> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let pending = self.wire.outgoing(&item);
        let input = Arc::clone(&self.input);
        async move {
            let mut text = serde_json::to_vec(&item)?;
            text.push(b'\n');
            let mut input = input.lock().await;
            let input = input.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            // A line without its end is nothing to the server.
            input.write_all(&text).await?;
            if let Some(pending) = pending {
                pending.mark_sent();
            }
            input.flush().await
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            if self.wire.is_over() {
                return None;
            }
            match self.read_line().await {
                Ok(true) => {
                    if let Some(message) = self.message() {
                        return Some(message);
                    }
                }
                Ok(false) => {
                    let farewell = self.farewell().await;
                    self.wire.end(farewell);
                }
                Err(failure) => self.wire.end(failure),
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.wire.end(Failure::lost("it was closed"));
        // Who writes to a program that does not read holds this; then there is no gentle way.
        if let Ok(mut input) = self.input.try_lock() {
            drop(input.take());
        }
        self.process.end().await;
        Ok(())
    }
}
