//! Files below the home: every path, every write, every lock.
