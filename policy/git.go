package policy

import (
	"slices"
	"strings"

	"belljar/internal/lazyregexp"
)

// gitGlobal are the options before git's command. Those that name other
// programs or settings (-c core.pager=…) run what they name.
var gitGlobal = newGrammar("C:!C p,paginate!o P,no-pager no-replace-objects bare literal-pathspecs glob-pathspecs noglob-pathspecs icase-pathspecs no-optional-locks no-advice no-lazy-fetch v,version h,help!o html-path man-path info-path exec-path?!o git-dir:!o work-tree:!o namespace: super-prefix: config-env:!o c:!o attr-source: @ordered")

// gitShow are the options of log, diff, show and similar commands that only choose
// what is printed (git 2.47, git-log(1) and git-diff(1)).
const gitShow = `p,patch s,no-patch u U,unified: output-indicator-new: output-indicator-old: output-indicator-context: raw patch-with-raw indent-heuristic
	no-indent-heuristic minimal patience histogram anchored: diff-algorithm: stat? compact-summary numstat shortstat X,dirstat? cumulative dirstat-by-file?
	summary patch-with-stat z name-only name-status submodule? color? no-color color-moved? no-color-moved color-moved-ws: word-diff? word-diff-regex:
	color-words? no-renames rename-empty check ws-error-highlight: full-index binary abbrev? no-abbrev B,break-rewrites? M,find-renames? C,find-copies?
	find-copies-harder D,irreversible-delete l: diff-filter: S: G: find-object: pickaxe-all pickaxe-regex O: skip-to: rotate-to: R relative? no-relative
	a,text ignore-cr-at-eol ignore-space-at-eol b,ignore-space-change w,ignore-all-space ignore-blank-lines I,ignore-matching-lines: inter-hunk-context:
	W,function-context exit-code quiet no-ext-diff no-textconv ignore-submodules? src-prefix: dst-prefix: no-prefix default-prefix line-prefix: ita-invisible-in-index
	cached,staged merge-base no-index 0 1,base 2,ours 3,theirs follow no-decorate decorate? decorate-refs: decorate-refs-exclude: source mailmap no-mailmap use-mailmap
	full-diff log-size L: n,max-count: skip: since,after: until,before: since-as-filter: author: committer: grep-reflog: grep: all-match invert-grep
	i,regexp-ignore-case basic-regexp E,extended-regexp F,fixed-strings P,perl-regexp remove-empty merges no-merges min-parents: max-parents: no-min-parents
	no-max-parents first-parent exclude-first-parent-only not all branches? tags? remotes? glob: exclude: exclude-hidden: reflog single-worktree ignore-missing
	bisect stdin cherry-mark cherry-pick left-only right-only cherry g,walk-reflogs merge boundary simplify-by-decoration show-pulls full-history dense sparse
	simplify-merges ancestry-path? date-order author-date-order topo-order reverse no-walk? do-walk pretty? format: abbrev-commit no-abbrev-commit oneline
	encoding: expand-tabs? no-expand-tabs notes? no-notes standard-notes no-standard-notes show-linear-break? relative-date date: parents children left-right graph
	no-graph show-pulls t m c cc combined-all-paths no-diff-merges diff-merges: dd count timestamp objects objects-edge unpacked header use-bitmap-index
	show-signature!o ext-diff!o textconv!o output:!w @numbers q`

// gitCommands are git's commands that neither write nor run anything, with
// their options. Aliases cannot take their names.
var gitCommands = map[string]*grammar{}

func init() {
	for _, name := range strings.Fields("log diff show whatchanged diff-tree diff-index diff-files rev-list range-diff") {
		gitCommands[name] = newGrammar(gitShow + " s,summary no-commit-id always root r")
	}
	gitCommands["shortlog"] = newGrammar(gitShow + " e,email s,summary n,numbered")
	for name, spec := range map[string]string{
		"status":        "s,short b,branch show-stash porcelain? long v,verbose u,untracked-files? ignore-submodules? ignored? z column? no-column ahead-behind no-ahead-behind renames no-renames find-renames?",
		"blame":         "b root show-stats L: l t S: reverse first-parent p,porcelain line-porcelain incremental encoding: contents: date: M? C? ignore-rev: ignore-revs-file: color-lines color-by-age c score-debug f,show-name n,show-number s e,show-email w abbrev? minimal progress no-progress",
		"rev-parse":     "parseopt keep-dashdash stop-at-non-option stuck-long sq-quote revs-only no-revs flags no-flags default: prefix: verify q,quiet sq short? symbolic symbolic-full-name abbrev-ref? all branches? tags? remotes? glob: exclude: disambiguate: local-env-vars path-format: git-dir git-common-dir resolve-git-dir: git-path: show-toplevel show-superproject-working-tree shared-index-path absolute-git-dir is-inside-git-dir is-inside-work-tree is-bare-repository is-shallow-repository show-cdup show-prefix show-object-format? since,after: until,before: not",
		"ls-files":      "c,cached d,deleted m,modified o,others i,ignored s,stage directory no-empty-directory u,unmerged k,killed resolve-undo z deduplicate x,exclude: X,exclude-from: exclude-per-directory: exclude-standard error-unmatch with-tree: t v f full-name recurse-submodules abbrev? debug eol sparse format:",
		"ls-tree":       "d r t l,long z name-only name-status object-only full-name full-tree format: abbrev?",
		"cat-file":      "t p s e Z z batch? batch-check? batch-command? batch-all-objects buffer unordered allow-unknown-type follow-symlinks mailmap textconv!o filters!o path:",
		"describe":      "dirty? broken? all tags contains abbrev: candidates: exact-match debug long match: exclude: always first-parent",
		"grep":          "cached untracked no-index no-exclude-standard exclude-standard recurse-submodules a,text textconv!o no-textconv i,ignore-case I max-depth: r,recursive no-recursive w,word-regexp v,invert-match h H full-name E,extended-regexp G,basic-regexp P,perl-regexp F,fixed-strings n,line-number column l,files-with-matches,name-only L,files-without-match O?!o open-files-in-pager?!o z,null o,only-matching c,count color? no-color break heading p,show-function A,after-context: B,before-context: C,context: m,max-count: W,function-context threads: f: e: and or not all-match q,quiet @numbers",
		"merge-base":    "a,all octopus independent is-ancestor fork-point",
		"name-rev":      "tags refs: exclude: all annotate-stdin name-only no-undefined always",
		"show-ref":      "head heads branches tags d,dereference s,hash? verify exists abbrev? q,quiet",
		"for-each-ref":  "count: sort: format: color? s,shell p,perl python tcl points-at: merged? no-merged? contains? no-contains? ignore-case omit-empty exclude: include-root-refs",
		"count-objects": "v,verbose H,human-readable", "check-ignore": "q,quiet v,verbose stdin z n,non-matching no-index", "check-attr": "a,all stdin cached z source:",
		"help":             "a,all g,guides c,config!o i,info!o m,man!o w,web!o verbose no-verbose user-interfaces developer-interfaces no-external-commands no-aliases",
		"check-ref-format": "", "var": "", "version": "build-options", "cherry": "v abbrev?", "verify-pack": "v,verbose s,stat-only",
		"diff-pairs": "z", "show-branch": "r,remotes a,all current topo-order date-order sparse more: list merge-base independent no-name sha1-name topics g,reflog? color? no-color",
	} {
		gitCommands[name] = newGrammar(spec)
	}
	programs["git"] = git
}

const gitNames = "abcdefghijklmnopqrstuvwxyz-" // the characters of command names

const stashLists = "show list"

// gitLists are commands that print if no operand, or only these words, follow.
var gitLists = map[string]*struct {
	options *grammar
	words   string // the operands it may have
}{
	"branch":   {newGrammar("a,all r,remotes v,verbose list!L show-current merged?!L no-merged?!L contains?!L no-contains?!L sort: format: points-at:!L color? no-color column? no-column i,ignore-case q,quiet"), ""},
	"tag":      {newGrammar("l,list!L n? sort: format: points-at:!L merged?!L no-merged?!L contains?!L no-contains?!L color? column? no-column i,ignore-case"), ""},
	"remote":   {newGrammar("v,verbose all push"), "get-url"},
	"stash":    {newGrammar("p,patch stat name-only name-status"), stashLists},
	"worktree": {newGrammar("v porcelain z"), "list"},
	"reflog":   {newGrammar(gitShow), "show"},
	"config":   {newGrammar("l,list!L get!L get-all!L get-regexp!L global local system worktree show-origin show-scope name-only z,null type: bool int includes no-includes all default:"), "list get"},
	"notes":    {newGrammar("ref:"), "list show"}, "submodule": {newGrammar("cached q,quiet"), "status"}, "bisect": {newGrammar(""), "log"},
	"symbolic-ref": {newGrammar("short q,quiet"), "HEAD"},
}

// gitSignature matches formats with a signature: gpg, or gpg.program, checks it.
var gitSignature = lazyregexp.New(`%[-+ ]?G|%\(\*?signature`)

func git(c *call) {
	p := c.parse(c.words[1:], gitGlobal)
	if len(p.operands) == 0 {
		return
	}
	sub := p.operands[0]
	if c.s.pages && !p.has("no-pager") {
		c.opaque("may start a pager, because env removes GIT_PAGER (write git --no-pager)", c.words[0], 0)
	}
	c.subject = append([]word{c.words[0]}, p.operands...)
	if !sub.static {
		c.unknown("which of git's commands it is", sub)
		return
	}
	for i, w := range p.operands[1:] {
		isSort := strings.HasPrefix(w.text, "--sort") || p.operands[i].is("--sort")
		isFormat := strings.HasPrefix(w.text, "--format") || strings.HasPrefix(w.text, "--pretty") || p.operands[i].is("--format")
		if gitSignature.MatchString(w.text) || isSort && strings.Contains(w.text, "signature") || (isFormat || isSort) && !w.static {
			c.opaque("may run gpg to print a signature", w, 0)
		}
	}
	grammar, list := gitCommands[sub.text], gitLists[sub.text]
	switch {
	case sub.text == "help" && slices.ContainsFunc(p.operands[1:], func(w word) bool {
		return !w.static || strings.Trim(w.text, gitNames) != "" || w.text[:1] != "-" && !c.piped
	}):
		c.opaque("shows a manual page, and a pager can run commands on a terminal", sub, 2) // and man opens an argument with a slash as a file
	case grammar != nil:
		c.parse(p.operands[1:], grammar)
	case list != nil && c.gitList(p.operands[1:], list.options, list.words):
	default:
		// they run hooks, filters, editors, helpers and aliases, and change files
		c.opaque("runs git "+oneLine(sub.text)+", which may run hooks and more", sub, 2)
	}
}

// gitList reports whether the words only list. If not, their options do not
// matter: the whole command is judged as unsafe.
func (c *call) gitList(words []word, g *grammar, operands string) bool {
	before := len(c.uses)
	p := c.parse(words, g)
	lists := len(c.uses) == before
	for _, o := range p.options {
		if o.effect == 'L' {
			return lists
		}
	}
	c.uses = c.uses[:before]
	if len(p.operands) == 0 {
		return lists && operands != stashLists // git stash is git stash push
	}
	if c.subject[1].is("config") && len(words) == 1 && words[0].static && strings.Contains(words[0].text, ".") {
		return true // prints that setting
	}
	for _, name := range strings.Fields(operands) {
		if p.operands[0].is(name) {
			return lists && (name != "HEAD" || len(p.operands) == 1)
		}
	}
	return false
}
