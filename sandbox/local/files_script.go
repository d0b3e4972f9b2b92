package local

import (
	"fmt"
	"io/fs"
	"strconv"

	"belljar/sandbox"
)

// The scripts that move files. They need sh, and the programs that they name. Their
// variables: W is the workspace, D a directory in it and N a name in that; T is a random
// word, S a size, M a mode and F a format.
//
// A script begins when it has read a line: by then its process is known to be belljar's.
// It enters D without links that lead out of W, and then uses only names relative to
// that. Another process of the session can still replace what the script looked at: then
// only files of the container are at risk, which that process could write anyway, or, if
// the session's first command ran as another user, that user.
const (
	scriptBegin = `
no() { s=$1; shift; echo "$*" >&2; exit $s; }
need() { for c; do command -v "$c" >/dev/null || no 86 "$c"; done; }
echo; IFS= read -r _ || exit 1
cd -P "$W" || exit 80
w=${PWD%/}
cd -P "./$D" 2>/dev/null || { [ -e "./$D" ] && exit 88; exit 81; }
case $PWD/ in "$w"/*) ;; *) exit 82; esac
`
	scriptFound = `[ ! -L "./$N" ] || exit 83
[ -e "./$N" ] || exit 81
`
	scriptReadFile = scriptFound + `[ -f "./$N" ] || exit 84
need cat
exec cat "./$N"`

	scriptWriteFile = `[ ! -L "./$N" ] || exit 83
[ ! -d "./$N" ] || exit 84
need cat wc chmod mv rm
umask 077
set -C
if cat >"./$T"; then s=87
[ "$(wc -c <"./$T")" -ne "$S" ] || { chmod "$M" "./$T" && mv -f "./$T" "./$N" && exit; s=$?; }
else s=$?; fi
rm -f "./$T"
exit $s`

	scriptRemove = `[ -e "./$N" ] || [ -L "./$N" ] || exit 81
need rm
exec rm -rf "./$N"`

	scriptList = scriptFound + `need stat
[ -d "./$N" ] || exec stat -c "$F" "./$N"
cd -P "./$N" || exit 88
for f in * .[!.]* ..?*; do
[ -e "./$f" ] || [ -L "./$f" ] || continue
set -- "$@" "./$f"
[ $# -lt 100 ] || { stat -c "$F" "$@"; set --; }
done
[ $# -eq 0 ] || stat -c "$F" "$@"
exit 0`

	scriptReadTar = scriptFound + `need tar
[ "$N" = . ] || N=./$N
exec tar -cf - "$N"`

	// The archive is unpacked into a new directory, and its files are moved from there
	// if it has its last file, and once nothing is in the way of any of them. Each line of output says
	// that it goes on.
	scriptWriteTar = `need tar mkdir mv rm
bad() { s=$1; echo "$2" >&2; rm -rf "./$T"; exit $s; }
m() {
for f in "$1"/* "$1"/.[!.]* "$1"/..?*; do
[ -e "$f" ] || [ -L "$f" ] || continue
n=$2/${f##*/}
if [ -L "$n" ]; then bad 85 "$n"
elif [ -d "$f" ] && [ -d "$n" ]; then m "$f" "$n"
elif [ -d "$n" ] || [ -d "$f" ] && [ -e "$n" ]; then bad 85 "$n"
elif [ "$go" ]; then mv -f "$f" "$n" || bad $? "$n"; echo
fi
done
}
mkdir -m 700 "./$T" || exit
umask 0
tar -xf - -C "./$T" || bad $?
[ -f "./$T/$T" ] && rm "./$T/$T" || bad 87
go=; m "./$T" .
go=1; m "./$T" .
rm -rf "./$T"`

	scriptCleanup = `exec rm -rf "./$T"`
)

// The statuses with which these scripts end. A container can lie with them, too.
var filesStatuses = map[int][2]string{
	80: {"the workspace does not exist", "create it in the session, or choose another workdir"},
	81: {"there is no such file or directory", "list what is there: belljar session ls-files"},
	82: {"it leaves the workspace through a link", "name the file where it is"},
	83: {"it is a symbolic link", "name the file that it leads to"},
	84: {"it is not a regular file", "copy a directory as a tar archive"},
	85: {"something that is a link, or a file in place of a directory, or the reverse, is in the way", "remove it, or choose another directory"},
	87: {"it did not arrive whole", "copy it again"},
	88: {"it is not a directory that the user can enter", "choose another"},
}

// absent is a fs.ErrNotExist that says what it is about.
type absent struct{ text string }

func (a absent) Error() string { return a.text }

func (a absent) Is(target error) bool { return target == fs.ErrNotExist }

// filesError is why a script did not do it. What the container says is quoted.
func (t *transfer) filesError(status int, said string) error {
	about := filesStatuses[status]
	cause := sandbox.CauseInvalid
	switch {
	case status == 86:
		cause = sandbox.CauseImage
		about = [2]string{fmt.Sprintf("image %q has no %.20q", t.kept.Image, said), "use an image that has it; one file at a time: belljar session exec NAME 'cat FILE' >FILE"}
		if said = ""; t.store.Name == "" {
			about[1] = "use an image that has it, such as belljar/base"
		}
	case status == 81:
		return &sandbox.Error{Cause: cause, Message: t.what, Err: absent{about[0]}, Hint: about[1]}
	case about[0] == "":
		about = [2]string{fmt.Sprintf("what moves files in the container ended with exit status %d", status), "see what it said; files that change meanwhile make it fail, too"}
	}
	message := fmt.Sprintf("%s: %s", t.what, about[0])
	if said != "" {
		message += ": " + strconv.Quote(said)
	}
	return &sandbox.Error{Cause: cause, Message: message, Hint: about[1]}
}
