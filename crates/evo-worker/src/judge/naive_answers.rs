//! What a user's reference is to those who ask it: a kernel or a command that gives answers to inputs.

use evo_protocol::device::DeviceError;

pub type NaiveAnswers = Vec<(usize, Vec<f64>)>;

pub trait NaiveReference {
    fn answers(&mut self, inputs: &[Vec<u8>]) -> Result<NaiveAnswers, DeviceError>;

    /// Its answers to several inputs at one shape, in their order.
    fn answers_each(&mut self, inputs: &[Vec<Vec<u8>>]) -> Result<Vec<NaiveAnswers>, DeviceError> {
        inputs.iter().map(|own| self.answers(own)).collect()
    }

    /// The same in single precision, where `answers` computes in double precision and there is such a build.
    fn single(&mut self, _inputs: &[Vec<u8>]) -> Result<Option<NaiveAnswers>, DeviceError> {
        Ok(None)
    }
}

impl<F: FnMut(&[Vec<u8>]) -> Result<NaiveAnswers, DeviceError>> NaiveReference for F {
    fn answers(&mut self, inputs: &[Vec<u8>]) -> Result<NaiveAnswers, DeviceError> {
        self(inputs)
    }
}
