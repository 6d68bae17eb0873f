//! Messages between a worker and its executors: JSON in packets, with descriptors beside them.

use std::cell::RefCell;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::retry_on_intr;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of a packet: several fit the buffer that the kernel gives a socket.
const PACKET: usize = 32 * 1024;

const MESSAGE_MAX: usize = 16 << 20;

/// Descriptors of a message; the kernel takes 253 at once.
pub const DESCRIPTORS_MAX: usize = 128;

/// First byte of a packet that is followed by another of the same message.
const CONTINUED: u8 = b'+';

#[derive(Debug)]
pub struct RoomSocket {
    descriptor: OwnedFd,
    /// Room for a packet, made once: clearing it for each message cost more than reading one.
    room: RefCell<Vec<u8>>,
}

#[derive(Debug)]
pub struct RoomMessage {
    pub bytes: Vec<u8>,
    pub descriptors: Vec<OwnedFd>,
}

impl RoomMessage {
    pub fn parse<T: DeserializeOwned>(&self) -> io::Result<T> {
        serde_json::from_slice(&self.bytes).map_err(io::Error::other)
    }
}

impl RoomSocket {
    pub fn pair() -> io::Result<(RoomSocket, RoomSocket)> {
        let flags = SocketFlags::CLOEXEC;
        let (one, other) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((RoomSocket::of(one), RoomSocket::of(other)))
    }

    pub fn of(descriptor: OwnedFd) -> RoomSocket {
        RoomSocket { descriptor, room: RefCell::default() }
    }

    pub fn into_descriptor(self) -> OwnedFd {
        self.descriptor
    }

    pub fn send(&self, body: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let text = serde_json::to_vec(body).map_err(io::Error::other)?;
        let mut rest = text.as_slice();
        while rest.len() > PACKET {
            let (now, later) = rest.split_at(PACKET);
            self.send_packet(&[IoSlice::new(&[CONTINUED]), IoSlice::new(now)], &[])?;
            rest = later;
        }
        self.send_packet(&[IoSlice::new(rest)], descriptors)
    }

    fn send_packet(&self, parts: &[IoSlice<'_>], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::other("too many descriptors for one message"));
        }
        retry_on_intr(|| sendmsg(&self.descriptor, parts, &mut control, SendFlags::NOSIGNAL))?;
        Ok(())
    }

    /// Nothing once the other end is closed.
    pub fn receive(&self) -> io::Result<Option<RoomMessage>> {
        let mut message = RoomMessage { bytes: Vec::new(), descriptors: Vec::new() };
        let mut room = self.room.borrow_mut();
        room.resize(PACKET + 1, 0);
        loop {
            let count = self.receive_packet(&mut room, &mut message.descriptors, RecvFlags::CMSG_CLOEXEC)?;
            match room[..count].split_first() {
                None => return Ok(None),
                // A part of nothing would let a message go on for ever without growing.
                Some((&CONTINUED, part)) if !part.is_empty() => message.bytes.extend_from_slice(part),
                Some(_) => {
                    message.bytes.extend_from_slice(&room[..count]);
                    return Ok(Some(message));
                }
            }
            // Our own messages bring their descriptors with the last packet.
            if message.bytes.len() > MESSAGE_MAX || !message.descriptors.is_empty() {
                return Err(io::Error::other("a message without an end"));
            }
        }
    }

    pub fn has_input(&self) -> bool {
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        self.receive_packet(&mut [0; 1], &mut Vec::new(), flags).is_ok_and(|count| count > 0)
    }

    fn receive_packet(
        &self,
        room: &mut [u8],
        descriptors: &mut Vec<OwnedFd>,
        flags: RecvFlags,
    ) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [IoSliceMut::new(room)];
        let received = retry_on_intr(|| recvmsg(&self.descriptor, parts, &mut control, flags))?;
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(own) = part {
                descriptors.extend(own);
            }
        }
        Ok(received.bytes)
    }
}

impl AsFd for RoomSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_every_length_come_whole_and_with_their_descriptors() {
        let (one, other) = RoomSocket::pair().unwrap();
        for length in [0, 1, PACKET - 2, PACKET, 3 * PACKET] {
            let text = "x".repeat(length);
            one.send(&text, &[one.as_fd()]).unwrap();
            let message = other.receive().unwrap().unwrap();
            assert_eq!(message.parse::<String>().unwrap(), text);
            assert_eq!(message.descriptors.len(), 1);
        }
        assert!(!other.has_input());
        one.send(&1, &[]).unwrap();
        assert!(other.has_input());
        assert_eq!(other.receive().unwrap().unwrap().parse::<u32>().unwrap(), 1);
        drop(one);
        assert!(!other.has_input() && other.receive().unwrap().is_none());
    }

    #[test]
    fn a_message_that_goes_on_for_ever_ends() {
        let (one, other) = RoomSocket::pair().unwrap();
        let part = |bytes: &[u8], descriptors: &[BorrowedFd<'_>]| {
            one.send_packet(&[IoSlice::new(&[CONTINUED]), IoSlice::new(bytes)], descriptors).unwrap();
        };
        part(b"", &[]);
        assert_eq!(other.receive().unwrap().unwrap().bytes, [CONTINUED], "not JSON, and not waited for");
        // Descriptors with each part would fill the table of the process that reads them.
        part(b"x", &[one.as_fd(), one.as_fd()]);
        assert!(other.receive().is_err());
        std::thread::scope(|scope| {
            scope.spawn(move || while one.send_packet(&[IoSlice::new(&[CONTINUED; 9000])], &[]).is_ok() {});
            assert!(other.receive().is_err(), "longer than a message may be");
            rustix::net::shutdown(&other, rustix::net::Shutdown::Both).unwrap();
        });
    }
}
