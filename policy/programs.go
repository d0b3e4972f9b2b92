package policy

import (
	"path"
	"slices"
	"strings"
)

// freePrograms only read and print, with any arguments.
// Sources: the man pages of coreutils 9, util-linux 2.39, procps 4, grep 3.11,
// diffutils 3.10, psmisc 23, net-tools 2.10,
// gzip 1.12, bzip2 1.0.8, xz 5.4 and jq 1.7, each searched for files and commands.
const freePrograms = `
	[ arch b2sum base32 base64 basename basenc cat cksum cmp colrm column comm cut df diff dir dirname du echo egrep
	expand expr factor fgrep fmt fold free grep groups head hexdump id join jq logname ls
	lsblk lscpu md5sum nl nproc numfmt od paste pathchk pgrep pidof pinky pr printenv ps pwd readlink realpath rev seq
	sha1sum sha224sum sha256sum sha384sum sha512sum sleep stat strings sum tac tail test tr true false tsort tty uname
	unexpand uptime users vdir w wc whereis which who whoami zipinfo cal
	bzcat ipcs netstat pstree xzcat yes zcat
	arch findmnt hexyl last locale locate lsmem lsmod mpstat iostat readelf shellcheck size vmstat`

// optionRow is a program whose options and operands matter.
type optionRow struct {
	names    string
	spec     string
	operands byte // which operands it writes: 'w' all, 'l' the last, '2' the second, 'S' many, 'P' those that its input names, 0 none; 'z' all unless printed; '+' and '-': none are read, but formats;
	// 'p' none, and with words that are not known here it does more than print;
	// so do 'L' without an option of effect L, 'Z' unless printed, '0' with any, '=' with settings, '@' with files of options
}

// Writing the operands is the purpose of some programs: a rule
// that names the program allows it, unless the rule or the set has path rules.
var optionRows = []optionRow{
	{"sort", "b,ignore-leading-blanks d,dictionary-order f,ignore-case g,general-numeric-sort i,ignore-nonprinting M,month-sort h,human-numeric-sort n,numeric-sort R,random-sort random-source: r,reverse sort: V,version-sort batch-size: c C check? m,merge o,output:!w S,buffer-size: t,field-separator: T,temporary-directory:!w parallel: u,unique z,zero-terminated debug files0-from: compress-program:!x k,key: s,stable help version", 0},
	{"uniq", "@harmless c,count d,repeated D all-repeated? f,skip-fields: group? i,ignore-case s,skip-chars: u,unique z,zero-terminated w,check-chars: help version", '2'},
	{"shuf", "e,echo i,input-range: n,head-count: o,output:!w random-source: r,repeat z,zero-terminated help version", 0},
	{"date", "d,date: f,file: I,iso-8601? R,rfc-email rfc-3339: r,reference: u,utc,universal debug help version", '+'},
	{"hostname", "a,alias A,all-fqdns d,domain f,fqdn,long i,ip-address I,all-ip-addresses s,short y,yp,nis h,help V,version", '-'},
	{"file", "b,brief c,checking-printout e,exclude: F,separator: f,files-from: h,no-dereference i,mime mime-type mime-encoding k,keep-going L,dereference l,list N,no-pad n,no-buffer p,preserve-date r,raw s,special-files v,version 0,print0 P: E help C,compile!W m,magic-file: z,uncompress!o Z,uncompress-noreport!o", 0},
	{"tree", "a d l f x L: R!W P: I: ignore-case matchdirs prune noreport charset: filelimit: gitignore o:!w q N Q p u g s h si du D timefmt: F inodes device v t c U r dirsfirst sort: i A S n C X J H: T: nolinks fromfile help version", 0},
	{"xxd", "@single @ordered @harmless a,autoskip b,bits c,cols: e E,EBCDIC g,groupsize: h,help i,include l,len: o: p,ps,plain r,revert s,seek: u,upper v,version d", '2'},
	{"tee", "a,append i,ignore-interrupts p output-error? help version", 'w'},
	{"touch", "a c,no-create d,date: f h,no-dereference m r,reference: t: time: help version", 'w'},
	{"mkdir", "m,mode: p,parents v,verbose Z context? help version", 'w'},
	{"rmdir", "ignore-fail-on-non-empty p,parents v,verbose help version", 'w'},
	{"rm", "f,force i I interactive? one-file-system no-preserve-root preserve-root? r,R,recursive d,dir v,verbose help version", 'w'},
	{"unlink", "help version", 'w'},
	{"cp", "a,archive attributes-only b backup? copy-contents d f,force i,interactive H l,link L,dereference n,no-clobber P,no-dereference p preserve? no-preserve: parents R,r,recursive reflink? remove-destination sparse: strip-trailing-slashes s,symbolic-link S,suffix:!W t,target-directory:!w T,no-target-directory u update? v,verbose x,one-file-system Z context? debug help version", 'l'},
	{"mv", "b backup? f,force i,interactive n,no-clobber strip-trailing-slashes S,suffix:!W t,target-directory:!w T,no-target-directory u update? v,verbose Z debug help version", 'w'},
	{"ln", "b backup? d,F,directory f,force i,interactive L,logical n,no-dereference P,physical r,relative s,symbolic S,suffix:!W t,target-directory:!w T,no-target-directory v,verbose help version", 'l'},
	{"link", "help version", 'l'},
	{"install", "b backup? C,compare c d,directory D g,group: m,mode: o,owner: p,preserve-timestamps s,strip!o strip-program:!x S,suffix:!W t,target-directory:!w T,no-target-directory v,verbose help version", 'w'},
	{"chmod", "c,changes f,silent,quiet v,verbose no-preserve-root preserve-root reference: R,recursive r w x help version", 'w'},
	{"chown", "c,changes f,silent,quiet v,verbose dereference h,no-dereference from: no-preserve-root preserve-root reference: R,recursive H L P help version", 'w'},
	{"chgrp", "c,changes f,silent,quiet v,verbose dereference h,no-dereference no-preserve-root preserve-root reference: R,recursive H L P help version", 'w'},
	{"truncate", "c,no-create o,io-blocks r,reference: s,size: help version", 'w'},
	{"shred", "f,force n,iterations: random-source: s,size: u remove? v,verbose x,exact z,zero help version", 'w'},
	{"mktemp", "d,directory u,dry-run q,quiet suffix: p:!w tmpdir?!w t help version", 'w'},
	{"mkfifo", "m,mode: Z context? help version", 'w'}, {"mknod", "m,mode: Z context? help version", 'w'},
	{"split", "a,suffix-length: additional-suffix: b,bytes: C,line-bytes: d numeric-suffixes? x hex-suffixes? e,elide-empty-files filter:!X l,lines: n,number: t,separator: u,unbuffered verbose help version", 'S'},
	{"patch", "b,backup p,strip: N,forward R,reverse i,input: s,quiet,silent f,force t,batch d,directory:!W o,output:!w r,reject-file:!w E,remove-empty-files dry-run u,unified c,context n,normal l,ignore-whitespace F,fuzz: v,version help e,ed!o", 'P'},
	{"gzip", "c,stdout,to-stdout d,decompress,uncompress f,force h,help k,keep l,list n,no-name N,name!W q,quiet r,recursive S,suffix:!W t,test v,verbose V,version @numbers fast best", 'z'},
	{"gunzip", "c,stdout,to-stdout f,force k,keep l,list n,no-name N,name!W q,quiet r,recursive S,suffix:!W t,test v,verbose", 'z'},
	{"gofmt", "@single d e l s w!W r: cpuprofile:!w", 0},
	{"rg", "A,after-context: auto-hybrid-regex B,before-context: b,byte-offset s,case-sensitive color: colors: column C,context: c,count count-matches crlf debug E,encoding: e,regexp: F,fixed-strings f,file: files l,files-with-matches files-without-match L,follow glob-case-insensitive g,glob: H,with-filename heading h help .,hidden iglob: i,ignore-case ignore-file: v,invert-match json n,line-number N,no-line-number x,line-regexp M,max-columns: max-columns-preview m,max-count: d,max-depth: max-filesize: mmap U,multiline multiline-dotall no-config no-filename I no-heading no-ignore no-ignore-vcs no-ignore-parent no-messages no-mmap 0,null null-data one-file-system o,only-matching passthru path-separator: P,pcre2 p,pretty q,quiet r,replace: S,smart-case sort: sortr: stats a,text j,threads: trim t,type: T,type-not: type-add: type-list u,unrestricted V,version vimgrep w,word-regexp pre:!x pre-glob: hostname-bin:!x z,search-zip!o no-hidden no-search-zip no-pre line-buffered block-buffered trace no-unicode engine: context-separator: field-match-separator:", 0},
	{"yq", "r,raw-output e,exit-status o,output-format: p,input-format: P,prettyPrint n,null-input N,no-doc i,in-place,inplace!W s,split-exp!W C,colors M,no-colors I,indent: V,version h,help", 0},
	{"bat", "n,number p,plain l,language: r,line-range: A,show-all color: decorations: style: theme: wrap: H,highlight-line: paging: pager:!x P h,help V,version", 0},
	{"eza", "1 l,long a,all R,recurse T,tree L,level: h,header git icons s,sort: r,reverse D,only-dirs color?", 0},
	{"curl", "s,silent S,show-error L,location f,fail X,request: H,header: d,data: data-raw: data-binary: json: I,head i,include k,insecure m,max-time: connect-timeout: u,user: A,user-agent: v,verbose G,get compressed retry: w,write-out: b,cookie: url: max-redirs: 4,ipv4 6,ipv6 fail-with-body o,output:!w O,remote-name!W remote-name-all!W J,remote-header-name!W output-dir:!W K,config:!o c,cookie-jar:!w D,dump-header:!w stderr:!w trace:!w trace-ascii:!w libcurl:!w hsts:!w alt-svc:!w engine:!o T,upload-file: F,form: e,referer: x,proxy: p,proxytunnel h,help? V,version", 'C'},
	{"wget", "q,quiet v,verbose nv,no-verbose O,output-document:!w o,output-file:!w a,append-output:!w i,input-file: P,directory-prefix:!w S,server-response spider T,timeout: t,tries: c,continue U,user-agent: header: post-data: method: body-data: no-check-certificate use-askpass:!o e,execute:!o", 'W'},
	{"tar", "t,list f,file: v,verbose z,gzip,gunzip,ungzip j,bzip2 J,xz Z,compress,uncompress a,auto-compress lzip lzma zstd O,to-stdout C,directory: exclude: strip-components: wildcards no-wildcards anchored n,seek R,block-number totals? p,preserve-permissions,same-permissions same-owner no-same-owner x,extract,get!W c,create r,append u,update A,catenate,concatenate delete!W d,diff,compare T,files-from:!o X,exclude-from: h,dereference k,keep-old-files m,touch numeric-owner owner: group: mode: mtime: s sort: transform,xform:!o to-command:!X checkpoint? checkpoint-action:!o I,use-compress-program:!x F,info-script,new-volume-script:!x rsh-command:!x rmt-command:!x index-file:!w g,listed-incremental:!w one-file-system exclude-vcs ignore-failed-read remove-files!W utc full-time help version", 'T'},
	{"xz", "c,stdout,to-stdout d,decompress,uncompress f,force h,help k,keep l,list q,quiet t,test v,verbose V,version T,threads: @numbers", 'Z'},
	{"bzip2", "c,stdout,to-stdout d,decompress f,force h,help k,keep q,quiet t,test v,verbose V,version s,small @numbers", 'Z'},
	{"zstd", "c,stdout,to-stdout d,decompress,uncompress f,force h,help k,keep l,list q,quiet t,test v,verbose V,version o:!w rm!W @numbers", 'Z'},
	{"zstdcat", "q,quiet v,verbose f,force o:!w rm!W h,help V,version", 'p'},
	{"dpkg", "l,list!L L,listfiles!L s,status!L S,search!L p,print-avail!L C,audit!L V,verify!L get-selections!L print-architecture!L print-foreign-architectures!L compare-versions!L", 'L'},
	{"dpkg-query", "l,list!L L,listfiles!L s,status!L S,search!L p,print-avail!L W,show!L f,showformat: no-pager version!L", 'L'},
	{"rpm", "q,query!L a,all l,list i,info f,file R,requires c,configfiles d,docfiles s,state provides conflicts obsoletes changelog scripts last whatprovides whatrequires", 'L'},
	{"top", "b,batch,batch-mode!L n,iterations: d,delay: p,pid: u,filter-only-euser: U,filter-any-user: o,sort-override: c,cmdline-toggle i,idle-toggle H,threads-show E,scale-summary-mem: e,scale-task-mem: S,accum-time-toggle 1,single-cpu-toggle v,V,version!L h,help!L", 'L'},
	{"ss", "h,help V,version n,numeric r,resolve a,all l,listening o,options e,extended m,memory p,processes T,threads i,info s,summary tos cgroup b,bpf E,events Z,context z,contexts 4,ipv4 6,ipv6 0,packet t,tcp M,mptcp S,sctp u,udp d,dccp w,raw x,unix tipc vsock xdp inet-sockopt f,family: A,query,socket: H,no-header O,oneline Q,no-queues D,diag:!w K,kill!o F,filter:!o N,net:!o", 'p'},
	{"nm", "A,o,print-file-name a,debug-syms B C,demangle? no-demangle D,dynamic defined-only e f,format: g,extern-only ifunc-chars: j l,line-numbers n,numeric-sort p,no-sort P,portability r,reverse-sort S,print-size s,print-armap size-sort special-syms synthetic t,radix: u,undefined-only U,unicode: X: W,no-weak with-symbol-versions without-symbol-versions plugin:!o V,version H,h,help", '@'},
	{"objdump", "a,archive-headers f,file-headers p,private-headers h,headers,section-headers x,all-headers d,disassemble? D,disassemble-all S,source s,full-contents g,debugging e,debugging-tags G,stabs t,syms T,dynamic-syms r,reloc R,dynamic-reloc j,section: M,disassembler-options: m,architecture: b,target: l,line-numbers F,file-offsets C,demangle? w,wide z,disassemble-zeroes start-address: stop-address: no-addresses prefix-addresses show-raw-insn no-show-raw-insn insn-width: v,version i,info H,help plugin:!o", '@'},
	{"fd", "H,hidden I,no-ignore u,unrestricted s,case-sensitive i,ignore-case g,glob regex F,fixed-strings and: a,absolute-path L,follow p,full-path 0,print0 d,max-depth,maxdepth: min-depth: exact-depth: t,type: e,extension: S,size: changed-within: changed-before: o,owner: E,exclude: prune ignore-file: c,color: j,threads: max-results: 1 q,quiet base-directory: path-separator: search-path: one-file-system,mount no-ignore-vcs no-ignore-parent h,help V,version x,exec:!o X,exec-batch:!o l,list-details!o", 'p'},
	{"ag", "i,ignore-case s,case-sensitive S,smart-case l,files-with-matches L,files-without-matches c,count G,file-search-regex: g: A,after: B,before: C,context: w,word-regexp v,invert-match Q,literal F,fixed-strings f,follow hidden u,unrestricted a,all-types t,all-text U,skip-vcs-ignores p,path-to-ignore: ignore: ignore-dir: m,max-count: o,only-matching nocolor color nogroup group nobreak break noheading heading H column numbers nonumbers stats vimgrep depth: silent 0,null nopager pager:!o V,version", 'p'},
	{"sysctl", "a,all A n,values e,ignore N,names b,binary r,pattern: h,help V,version", '='},
	{"dmesg", "T,ctime t,notime x,decode k,kernel u,userspace l,level: f,facility: r,raw e,reltime d,show-delta color? L? P,nopager J,json S,syslog s,buffer-size: since: until: time-format: h,help V,version H,human!o w,follow", 'p'},
	{"iconv", "f,from-code: t,to-code: l,list c s,silent o,output:!w verbose h,help usage V,version", 'p'},
	{"getconf", "@ordered a v:!o", 'p'},
	{"lsb_release", "a,all i,id d,description r,release c,codename s,short h,help v,version", 'p'},
	{"bc", "l,mathlib q,quiet s,standard w,warn h,help v,version", '0'},
	{"shfmt", "d,diff l,list i,indent: bn ci sr kp fn s,simplify mn ln,language-dialect: p,posix version tojson w,write!W", 'p'},
	{"exa", "1,oneline l,long a,all R,recurse T,tree L,level: h,header git icons s,sort: r,reverse D,only-dirs", 'p'},
	{"stty", "a,all g,save", '0'}, {"mount", "l,show-labels h,help V,version", '0'}, {"arp", "a,all e n,numeric v,verbose", '0'}, {"route", "n,numeric e,extend v,verbose 4 6", '0'}, {"ifconfig", "a s v", '0'},
	{"zip", "r,recurse-paths q,quiet @numbers x,exclude: i,include: j,junk-paths u,update d,delete m,move!W T,test!o TT,unzip-command:!x e,encrypt y,symlinks v,verbose", 'w'},
	{"unzip", "l p v,verbose Z q t c z x: o!W n!W d:!w j a C L U b B f!W u!W K M", 'U'},
	{"ffmpeg", "@single y!W i:", 'F'}, {"ffprobe", "@single v: show_format show_streams of,print_format: i: hide_banner show_entries: select_streams:", 0},
}

func init() {
	for _, name := range strings.Fields(freePrograms) {
		programs[name] = func(*call) {}
	}
	for _, row := range optionRows {
		grammar := newGrammar(row.spec)
		programs[row.names] = func(c *call) { row.judge(c, grammar) }
	}
	programs["printf"] = printf
	programs["[["] = func(*call) {} // a shell without its own [[ … ]] runs a program named [[, which is test
	programs["fdfind"], programs["batcat"] = programs["fd"], programs["bat"]
	tree := programs["tree"]
	programs["tree"] = func(c *call) { c.valuesApart("LPIHTo"); tree(c) }
}

// valuesApart refuses clusters such as tree's -Po, whose letters take their
// values from the following words, in turn.
func (c *call) valuesApart(letters string) {
	for _, w := range c.words[1:] {
		if !w.static || !strings.HasPrefix(w.text, "-") || strings.HasPrefix(w.text, "--") {
			continue
		}
		if i := strings.IndexAny(w.text, letters); i > 0 && i+1 < len(w.text) && (w.text[i] != 'L' || !isDigits(w.text[i+1:])) {
			c.unknown("which word is the value of which option", w)
		}
	}
}

func (row optionRow) judge(c *call, g *grammar) {
	before, words := len(c.uses), c.words[1:]
	if row.names == "tar" {
		words = dashed(words, g)
	}
	p := c.parse(words, g)
	switch row.operands {
	case 'z':
		if first := c.first(g); first.printed() { // no later option reverts that
			c.uses = c.uses[:before]
			return
		}
		if p.printed() {
			return
		}
		shortens := row.names == "gunzip" || p.has("uncompress") // the name, by its suffix
		for _, w := range p.operands {
			if i := strings.LastIndexAny(w.text, ".-_"); shortens && w.static && i > 0 {
				w.text, w.inner = w.text[:i], -1
				c.write(w, 1)
			}
		}
		fallthrough
	case 'w':
		for _, w := range p.operands {
			c.write(w, 1)
		}
		c.copiesGuarded(p.operands, row.names, row.names == "mv")
	case 'S':
		c.writeSomewhere("writes the parts", c.words[0], 1)
	case 'P':
		if !p.has("dry-run") {
			c.writeSomewhere("writes the files that its input names", c.words[0], 1)
		}
	case 'l':
		c.writesLast(row.names, p)
	case '2':
		for i, w := range p.operands {
			if i == 1 || w.splits || w.globs {
				c.write(w, 0)
			}
		}
	case '+', '-': // other operands set the clock or the host's name
		for _, w := range p.operands {
			if row.operands == '-' || !strings.HasPrefix(w.text, "+") || w.splits {
				c.unknown("what "+row.names+" sets", w)
			}
		}
	case 'W', 'U', 'T':
		row.archive(c, p, words)
	case 'C':
		c.transfers(p)
	case 'F':
		c.outputs(p)
	case 'p', 'L', 'Z', '0', '=', '@':
		if len(c.uses) > before || row.names == "ss" && !c.asksNoHost(p.operands) || !row.prints(c, p) {
			c.uses = c.uses[:before]
			c.opaque("may do more than print", c.words[0], 1)
		}
	}
}

// writesLast judges cp and ln, which write their last operand. With one operand ln writes
// here, by the name that this has there.
func (c *call) writesLast(name string, p *parsed) {
	operands := p.operands
	switch n := len(operands); {
	case p.has("target-directory") || n == 0:
	case n == 1 && name == "ln" && operands[0].static:
		link := operands[0]
		link.text, link.inner = path.Base(link.text), -1
		c.write(link, 1)
	default:
		c.write(operands[n-1], 1)
	}
	c.copiesGuarded(operands, name, name == "ln" || p.has("recursive") || p.has("archive"))
}

// prints reports whether a program that can also change the system or run other
// programs only prints here.
func (row optionRow) prints(c *call, p *parsed) bool {
	switch row.operands {
	case 'L':
		macro := func(w word) bool { return strings.Contains(w.text, "%") || !w.static && row.names == "rpm" }
		return slices.ContainsFunc(p.options, func(o given) bool { return o.effect == 'L' }) && !slices.ContainsFunc(p.operands, macro)
	case 'Z':
		// Of -t, -l and -d the last counts, except for gzip.
		mode := slices.ContainsFunc(p.options, func(o given) bool { return o.name == "uncompress" || o.name == "decompress" })
		return p.has("to-stdout") || p.printed() && !mode
	case '0':
		return len(p.operands) == 0
	case '=', '@':
		return !slices.ContainsFunc(c.words[1:], func(w word) bool {
			return strings.Contains(w.text, string(row.operands)) || !w.static && (row.operands == '=' || !w.noDash)
		})
	}
	return true
}

// first is the call, read as if its first word were the whole command line.
func (c *call) first(g *grammar) *parsed {
	probe := *c
	probe.uses = nil
	return probe.parse(c.words[1:min(2, len(c.words))], g)
}

// printed reports whether a compressor only prints.
func (p *parsed) printed() bool { return p.has("to-stdout") || p.has("list") || p.has("test") }

// archive judges programs that write the files that their input names.
func (row optionRow) archive(c *call, p *parsed, words []word) {
	switch {
	case row.operands == 'U' && len(words) > 0 && words[0].static && strings.HasPrefix(words[0].text, "-Z"): // works as zipinfo
		c.uses = nil
	case row.operands == 'W' && !p.has("output-document") && !p.has("spider"),
		row.operands == 'U' && !p.has("l") && !p.has("p") && !p.has("c") && !p.has("verbose") && !p.has("t") && !p.has("Z") && !p.has("z"):
		c.writeSomewhere("writes files", c.words[0], 1)
	case row.operands == 'T':
		if len(words) > 0 && !strings.HasPrefix(words[0].text, "-") {
			c.unknown("options without a dash", words[0])
		}
		if len(p.options) == 0 {
			c.unknown("what tar does", c.words[0])
		}
		for _, o := range p.options {
			if o.name == "file" && mayBeElsewhere(o.value) {
				c.opaque("runs rsh for an archive on another host", o.value, 0) // tar(1), --force-local
			}
			switch o.name {
			case "create", "append", "update", "concatenate":
				c.writeSomewhere("writes an archive", c.words[0], 1)
			}
		}
	}
}

// dashed converts tar's old style: the first word is letters, whose values
// are the words after it, in turn.
func dashed(words []word, g *grammar) []word {
	g.once.Do(g.read)
	if len(words) == 0 || !words[0].static || words[0].text == "" || words[0].text[0] == '-' {
		return words
	}
	var out []word
	letters, values := words[0], words[1:]
	for _, letter := range []byte(letters.text) {
		if letter >= 128 || g.short[letter] == nil {
			return words
		}
		option := letters
		option.text, option.inner = "-"+string(letter), -1
		out = append(out, option)
		if g.short[letter].value == ':' {
			if len(values) == 0 {
				return words
			}
			out, values = append(out, values[0]), values[1:]
		}
	}
	return append(out, values...)
}

// mayBeElsewhere reports whether a colon is, or may be, before the first slash.
func mayBeElsewhere(archive word) bool {
	i := strings.IndexAny(archive.text, ":/")
	return i >= 0 && archive.text[i] == ':' || i < 0 && !archive.static && !archive.path && !archive.number
}
