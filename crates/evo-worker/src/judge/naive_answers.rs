//! What a user's reference is to those who ask it: a kernel or a command that gives answers to inputs.

use evo_protocol::device::DeviceError;

/// Outputs by buffer position.
pub type NaiveAnswers = Vec<(usize, Vec<f64>)>;

/// Runs the user's naive kernel on these inputs (by buffer position).
pub type NaiveKernel<'a> = dyn FnMut(&[Vec<u8>]) -> Result<NaiveAnswers, DeviceError> + 'a;

/// The user's naive kernel, or command, as often as it is asked.
pub trait NaiveReference {
    /// Its answers to these inputs, by buffer position.
    fn answers(&mut self, inputs: &[Vec<u8>]) -> Result<NaiveAnswers, DeviceError>;

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
