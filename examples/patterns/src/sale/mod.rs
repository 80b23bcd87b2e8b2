//! [`Till`]: sells from a stock in the database, and refuses a holder of the lock that has lost it.
//!
//! [`Till::enter`] and [`Till::sell`] are the pattern. [`Till::look`], [`Till::sell_blindly`] and
//! [`Till::sell_if_there_is_one`] are what it is compared with.

pub mod trial;

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use serde::{Deserialize, Serialize};

use crate::database;

/// The tables. Only one row has the stock.
#[must_use]
pub fn tables(stock: u64) -> String {
    format!(
        "CREATE TABLE stock (id INTEGER PRIMARY KEY, unsold INTEGER NOT NULL CHECK (unsold >= 0),
                             token INTEGER NOT NULL, holder TEXT NOT NULL);
         INSERT INTO stock VALUES (1, {stock}, 0, '');
         CREATE TABLE sale (id INTEGER PRIMARY KEY, clerk TEXT NOT NULL);"
    )
}

/// What came of a sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sale {
    Sold,
    SoldOut,
    /// The database has seen a later holder of the lock.
    Refused,
}

/// Who has the lock: the token of a fenced lock, and the holder it was given to.
#[derive(Clone, Copy, Debug)]
pub struct Stamp<'a> {
    pub token: u64,
    pub holder: &'a str,
}

/// A connection to the database, of one clerk.
#[derive(Debug)]
pub struct Till {
    database: Connection,
    clerk: String,
}

impl Till {
    /// Opens the database.
    ///
    /// # Errors
    /// Those of SQLite.
    pub fn open(path: &Path, clerk: &str) -> rusqlite::Result<Self> {
        Ok(Self { database: database::connect(path)?, clerk: clerk.to_owned() })
    }

    /// Reads how many are left, and shuts out all earlier holders. `None`: there has been a later one.
    ///
    /// # Errors
    /// Those of SQLite.
    pub fn enter(&self, stamp: Stamp<'_>) -> rusqlite::Result<Option<u64>> {
        let mut enter = self.database.prepare_cached(
            "UPDATE stock SET token = ?1, holder = ?2
             WHERE token < ?1 OR (token = ?1 AND holder = ?2) RETURNING unsold",
        )?;
        enter.query_row((stamp.token, stamp.holder), |row| row.get(0)).optional()
    }

    /// Sells one of this many, unless a later holder has entered.
    ///
    /// # Errors
    /// Those of SQLite.
    pub fn sell(&mut self, unsold: u64, stamp: Stamp<'_>) -> rusqlite::Result<Sale> {
        let Some(rest) = unsold.checked_sub(1) else { return Ok(Sale::SoldOut) };
        let all = self.database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let rows = all.execute(
            "UPDATE stock SET unsold = ?1 WHERE token = ?2 AND holder = ?3",
            (rest, stamp.token, stamp.holder),
        )?;
        if rows == 0 {
            return Ok(Sale::Refused); // and the transaction is rolled back
        }
        all.execute("INSERT INTO sale (clerk) VALUES (?1)", [&self.clerk])?;
        all.commit()?;
        Ok(Sale::Sold)
    }

    /// Reads how many are left.
    ///
    /// # Errors
    /// Those of SQLite.
    pub fn look(&self) -> rusqlite::Result<u64> {
        self.database.query_row("SELECT unsold FROM stock", [], |row| row.get(0))
    }

    /// Sells one of this many, whoever has been here meanwhile.
    ///
    /// # Errors
    /// Those of SQLite.
    pub fn sell_blindly(&mut self, unsold: u64) -> rusqlite::Result<Sale> {
        let Some(rest) = unsold.checked_sub(1) else { return Ok(Sale::SoldOut) };
        let all = self.database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        all.execute("UPDATE stock SET unsold = ?1", [rest])?;
        all.execute("INSERT INTO sale (clerk) VALUES (?1)", [&self.clerk])?;
        all.commit()?;
        Ok(Sale::Sold)
    }

    /// Sells one if there is one. The database does all of it, and needs no lock.
    ///
    /// # Errors
    /// Those of SQLite.
    pub fn sell_if_there_is_one(&mut self) -> rusqlite::Result<Sale> {
        let all = self.database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if all.execute("UPDATE stock SET unsold = unsold - 1 WHERE unsold > 0", [])? == 0 {
            return Ok(Sale::SoldOut);
        }
        all.execute("INSERT INTO sale (clerk) VALUES (?1)", [&self.clerk])?;
        all.commit()?;
        Ok(Sale::Sold)
    }

    /// How many sales there are.
    ///
    /// # Errors
    /// Those of SQLite.
    pub fn sales(&self) -> rusqlite::Result<u64> {
        self.database.query_row("SELECT count(*) FROM sale", [], |row| row.get(0))
    }
}
