// Package failure builds the errors that engines return, and what they quote.
package failure

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"belljar/sandbox"
)

// Builder is an error of an engine without its hint.
type Builder struct{ of sandbox.Error }

// New begins an error with sandbox.CauseEngine. err is what led to it, or nil.
func New(err error, format string, args ...any) *Builder {
	return &Builder{sandbox.Error{Cause: sandbox.CauseEngine, Message: fmt.Sprintf(format, args...), Err: err}}
}

// As gives it another cause.
func (b *Builder) As(cause sandbox.Cause) *Builder {
	b.of.Cause = cause
	return b
}

// Hint is the error, with what to do about it. Where this host ran out of something, that is more than the general hint.
func (b *Builder) Hint(text string) *sandbox.Error {
	if b.of.Hint = text; text != general {
		return &b.of
	}
	op := opOf(b.of.Err)
	for errno, hint := range wants {
		if errors.Is(b.of.Err, errno) && (errno != syscall.EAGAIN || op == fork) {
			b.of.Hint = hint
		}
	}
	if errors.Is(b.of.Err, syscall.ENOSPC) && (op == "" || op == fork) { // of mount(2), unshare(2) or clone(2): no disk is full
		b.of.Hint = "this host has as many mounts or namespaces as it may: raise sysctl fs.mount-max, user.max_mnt_namespaces or user.max_user_namespaces"
	}
	return &b.of
}

// fork is opOf where a program could not be started. Elsewhere EAGAIN means something else.
const fork = "fork/exec"

// opOf is what could not be done with a file, "" where the error names none.
func opOf(err error) string {
	if path, is := errors.AsType[*fs.PathError](err); is {
		return path.Op
	}
	if link, is := errors.AsType[*os.LinkError](err); is {
		return link.Op
	}
	return ""
}

// general is the hint of a failure that has no cause of its own.
const general = "see: belljar doctor"

// wants are what to do where this host, or this process, ran out of something.
var wants = map[syscall.Errno]string{
	syscall.EMFILE: "this belljar has as many files open as it may: raise its limit (ulimit -n)",
	syscall.ENFILE: "this host has as many files open as it may: raise sysctl fs.file-max",
	syscall.EAGAIN: "this host or this user has as many processes as it may: end some, or raise the limit (ulimit -u, sysctl kernel.pid_max)",
	syscall.ENOMEM: "this host has no memory left: end what uses it",
	syscall.ENOSPC: "make room there",
	syscall.EDQUOT: "make room there, or raise this user's quota",
	syscall.EROFS:  "make that writable",
}

// OfImage is As for what seems to be an image's fault. It is not where this process or this host ran out of something: then
// the hint is what to do about that.
func (b *Builder) OfImage(hint string) *sandbox.Error {
	if Shortage(b.of.Err) {
		return b.Hint(general)
	}
	return b.As(sandbox.CauseImage).Hint(hint)
}

// Shortage reports whether a file of this host could not be opened because of what it has no more of.
func Shortage(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// OneLine makes a program's text fit into a message.
func OneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	return strings.Join(strings.Fields(text), " ")
}
