//! `TideLogStore` against its contract, through the trait alone wherever the trait is enough, on
//! both backends.

mod checks;
mod damage;
mod defaults;
mod durability;
mod engine;
mod obsolete;
mod parity;
mod reading;
mod stopping;
mod support;

use support::*;
