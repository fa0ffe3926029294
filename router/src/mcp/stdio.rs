//! The protocol over standard input and output, for the one who started the program.

use std::sync::Arc;

use rmcp::service::ServiceExt as _;

use super::{Asker, Handler, Shared};
use crate::access::Bearer;
use crate::service::Service;

/// Answers requests on standard input until it ends.
///
/// # Errors
/// When the other side does not speak the protocol, or there is no randomness.
pub async fn serve_stdio(service: &Service, bearer: Bearer) -> std::io::Result<()> {
    let shared = Arc::new(Shared::new(service.clone())?);
    let handler = Handler::new(&shared, Some(Asker { bearer, trace: None, held: None }));
    let serving = handler.serve(rmcp::transport::stdio()).await;
    let serving = match serving {
        Ok(serving) => serving,
        // Whoever goes before saying anything has no complaint.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(std::io::Error::other(error.to_string())),
    };
    serving.waiting().await.map(drop).map_err(std::io::Error::other)
}
