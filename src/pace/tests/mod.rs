//! What the gate and the controller do with any service.

mod controller;
mod gate;
