package local

import "strings"

// scriptCollect reads lines. Those of the first part, up to an empty line, each say where to
// look: at a path p that is d, relative to W, or in it, and m directories below that. Those of
// the second part each name a file f, and how many bytes of it to write. In its output T
// marks each file of the list, the list's end and each content's end, which a status follows.
// As file names may contain anything, a line is quoted for the shell.
const scriptCollect = `need find stat head
L='
'
while IFS= read -r l && [ "$l" ]; do
eval "$l"
[ -e "./$p" ] || [ -L "./$p" ] || continue
at=$(cd -P ".$d" && pwd -P && echo .) || continue
[ "$at" = "$w$d$L." ] || [ -z "$w$d" ] || { printf '%s a1ff 0 0 %s\n' "$T" ".$d"; continue; }
set --
[ -z "$m" ] || set -- -maxdepth "$m"
find "./$p" "$@" ! -type d -exec stat -c "$F" {} + </dev/null
done
printf '\n%s.\n' "$T"
while IFS= read -r l && [ "$l" ]; do
eval "$l"
s=1
[ -L "./$f" ] || [ ! -f "./$f" ] || { head -c "$n" "./$f" </dev/null 2>/dev/null; s=$?; }
printf '\n%s:\n%s\n' "$T" "$s"
done
exit 0`

// quoteLine writes a word for that script's eval, on one line.
func quoteLine(word string) string {
	return "'" + strings.ReplaceAll(strings.ReplaceAll(word, "'", `'\''`), "\n", `'"$L"'`) + "'"
}
