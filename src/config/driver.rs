//! The setting [`Config::driver`]. `wire/drivers.rs` makes the driver.

use super::Config;
use crate::options::Driver;

impl Config {
    /// Sets the driver. Default: fred, if its feature is compiled.
    pub fn driver(mut self, driver: Driver) -> Self {
        self.driver = Some(driver);
        self
    }

    /// The value of [`driver`](Self::driver).
    pub fn get_driver(&self) -> Driver {
        self.driver.unwrap_or_default()
    }
}
