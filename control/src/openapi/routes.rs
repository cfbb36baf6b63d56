//! Paths, their handlers, and what is said of them.

use axum::Router;
use axum::handler::Handler;
use axum::routing::on;

use super::Operation;

/// A router whose every path is described.
#[derive(Debug)]
pub struct Routes<S = ()> {
    router: Router<S>,
    operations: Vec<Operation>,
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            router: Router::new(),
            operations: Vec::new(),
        }
    }

    /// Serves an operation by a handler.
    ///
    /// # Panics
    /// Another handler has the same path and method: two lines of the program contradict each
    /// other, as with axum's own `route`.
    #[must_use]
    pub fn on<H, T>(mut self, operation: Operation, handler: H) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        let method = on(operation.verb.filter(), handler);
        self.router = self.router.route(operation.path, method);
        self.operations.push(operation);
        self
    }

    /// All of another's, too.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        self.router = self.router.merge(other.router);
        self.operations.extend(other.operations);
        self
    }

    /// The same with layers or a state. What is made of the router must have no paths of its own.
    #[must_use]
    pub fn map<R>(self, change: impl FnOnce(Router<S>) -> Router<R>) -> Routes<R> {
        Routes {
            router: change(self.router),
            operations: self.operations,
        }
    }

    /// What can be asked.
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// What serves it.
    pub fn into_router(self) -> Router<S> {
        self.router
    }
}

impl<S: Clone + Send + Sync + 'static> Default for Routes<S> {
    fn default() -> Self {
        Self::new()
    }
}
