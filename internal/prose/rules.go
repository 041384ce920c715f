package prose

import (
	"regexp"
	"strings"
)

// A wordRule finds one construct or word that the prose of this repository avoids.
type wordRule struct {
	name    string         // unique
	pattern *regexp.Regexp // the banned phrases
	except  *regexp.Regexp // matches that overlap one of these are allowed; nil if there are none
	instead string         // what to write in its place
	kinds   Kind           // where the rule applies; 0 means everywhere
	in      []string       // prefixes of the paths where the rule applies; nil means everywhere
	oldName bool           // the word is a former name of a concept, which the change log may use

	finds  string // a sentence that breaks the rule
	passes string // a similar sentence that does not; optional
}

// A nameRule bans words in identifiers and in file names.
type nameRule struct {
	words   []string // in lower case
	instead string
}

// phrase compiles a pattern that matches whole words in upper or lower case. Each space of the
// pattern matches white space with at most one line break.
func phrase(pattern string) *regexp.Regexp {
	pattern = undotted(pattern)
	return regexp.MustCompile(`(?i)\b(?:` + strings.ReplaceAll(pattern, " ", `(?:[ \t]+|[ \t]*\n[ \t]*)`) + `)\b`)
}

// undotted removes the dots that some words of the rules are written with, so that a search of the
// repository for an old word finds nothing here.
func undotted(text string) string { return strings.ReplaceAll(text, "·", "") }

// named returns the rule for some words, which are separated by spaces.
func named(words, instead string) nameRule {
	return nameRule{strings.Fields(undotted(words)), instead}
}

// core lists where the words of the broker and of the worker are found.
var core = []string{"internal/rdb/", "internal/worker/", "internal/loops/"}

// wordRules lists the banned constructs first, then the words that have a standard equivalent.
var wordRules = []wordRule{
	{
		name:    "is-to",
		pattern: phrase(`(?:is|are|was|were) (?:not )?to (?:be )?[a-z]+`),
		except: phrase(`(?:way|aim|goal|point|purpose|job|idea|task|step|rule|thing|intent|alternative|choice|fix|cure|simplest|best) ` +
			`(?:is|was) to [a-z]+|if [^.\x00]{0,40} were to [a-z]+` +
			`|(?:is|are|was|were) to (?:the|a|an|its|their|this|that|those|these|each|one|another|it|them)`),
		instead: "must, may, can, does; or the verb itself",
		finds:   "The holder is to fail the task.",
		passes:  "The purpose is to fail the task.",
	},
	{
		name:    "needs-not",
		pattern: phrase(`needs not`),
		instead: "does not have to; is optional",
		finds:   "Stop needs not come before it.",
		passes:  "Stop does not need a context.",
	},
	{
		name:    "has-to-be-by",
		pattern: phrase(`(?:has|have|had) to be(?: \w+){1,4} by`),
		instead: "the active voice: X must do Y",
		finds:   "The lease has to be extended by its holder.",
		passes:  "The lease has to be valid.",
	},
	{
		name:    "whom",
		pattern: phrase(`whom`),
		instead: "name the actor as the subject",
		finds:   "The server for whom it was meant is gone.",
	},
	{
		name:    "nobody",
		pattern: phrase(`nobody|somebody|anybody`),
		instead: "no caller, no server, no one; or name who does it",
		finds:   "The worker serves nobody else meanwhile.",
		passes:  `The user "nobody" has no access.`,
	},
	{
		name:    "whoever",
		pattern: phrase(`whoever|whomever|whosever`),
		instead: "the caller that, any server that",
		finds:   "The tick is enqueued once, whoever of them dies.",
	},
	{
		name:    "hears",
		pattern: phrase(`hears?|heard|hearing|heeds?|heeded|heeding`),
		instead: "receives, detects, handles, honors",
		finds:   "The server hears of the cancellation.",
		passes:  "The heartbeat is sent.",
	},
	{
		name:    "tells",
		pattern: phrase(`tells?|telling|told`),
		except:  phrase(`tell(?:s|ing)? (?:[\w']+ ){0,4}(?:apart|from)`),
		instead: "returns, reports, shows, notifies; is not reported",
		finds:   "Redis does not tell of its clients.",
		passes:  "The token tells them apart.",
	},
	{
		name:    "asked",
		pattern: phrase(`(?:is|are|was|were|be|been|being|not|gets?) asked|asks? (?:redis|it|them)`),
		except:  phrase(`questions? (?:is|are|was|were) asked`),
		instead: "queries, reads, requests; is unreachable",
		finds:   "The queue cannot be asked.",
		passes:  "The user asked for a report.",
	},
	{
		name:    "knows-of",
		pattern: phrase(`(?:know|knows|knew|known) (?:nothing )?of`),
		instead: "has, stores, reports; is known about",
		finds:   "The reply has what is known of the task.",
		passes:  "The known offsets are stored.",
	},
	{
		name:    "let-be",
		pattern: phrase(`let(?:s|ting)? be|(?:is|are) let be|left be`),
		instead: "leaves unchanged, ignores",
		finds:   "The janitor lets be what others hold.",
	},
	{
		name:    "has-its-way",
		pattern: phrase(`(?:has|have|had|having) (?:its|their|his) way`),
		instead: "takes precedence",
		finds:   "A handler that returns nil has its way.",
	},
	{
		name:    "sees-to",
		pattern: phrase(`(?:sees|see|seen|saw) to (?:it|that|this|them)`),
		instead: "ensures, handles",
		finds:   "The recoverer sees to it that the task runs.",
	},
	{
		name:    "mend",
		pattern: phrase(`mend(?:s|ed|ing|able)?`),
		instead: "repair, fix",
		finds:   "Run it with --repair to mend the queue.",
		passes:  "Amend the commit.",
	},
	{
		name:    "comes-to-be",
		pattern: phrase(`(?:come|comes|came|coming) (?:to be|into being|to life)`),
		instead: "is created, starts",
		finds:   "Queues come to be with their first task.",
	},
	{
		name:    "anew",
		pattern: phrase(`anew`),
		instead: "again; recreate, restart",
		finds:   "Clients that enqueue to it begin it anew.",
		passes:  "It is a new queue.",
	},
	{
		name:    "what-is",
		pattern: phrase(`what (?:is|are)|(?-i:What) (?:was|were)`),
		except:  regexp.MustCompile(`(?i)\bwhat\s+(?:is|are|was|were)\b[^.!:;"\x00]*\?|\bwhat is (?:new|different)\b`),
		instead: "name the thing: active tasks, the remaining bytes",
		finds:   "What is in process is waited for.",
		passes:  "What is it for?",
	},
	{
		name:    "as-you-like",
		pattern: phrase(`as (?:many|much|often|long)(?: \w+){0,4} as (?:you|one) (?:like|want|please)s?|as you like`),
		instead: "any number of",
		finds:   "Run as many schedulers as you like.",
		passes:  "Run as many schedulers as servers.",
	},
	{
		name:    "nevertheless",
		pattern: phrase(`nevertheless|nonetheless|notwithstanding`),
		instead: "still, even so; or however at the start",
		finds:   "The call may change the task nevertheless.",
	},
	{
		name:    "put-off",
		pattern: phrase(`(?:put|puts|putting) (?:\w+ )?off`),
		instead: "delay, defer",
		finds:   "A task that is put off runs later.",
	},
	{
		name:    "tried-again",
		pattern: phrase(`(?:tried|tries|trying) (?:it |them )?(?:again|once more)`),
		instead: "retried, retries",
		finds:   "The task is tried again.",
		passes:  "Reload the page and try again.",
	},
	{
		name:    "in-process",
		pattern: phrase(`in process`),
		except:  regexp.MustCompile(`(?i)\bin\s+process\s+[%\d\x00]`),
		instead: "active, in flight",
		finds:   "It waits for tasks that are in process.",
		passes:  "It runs in the process of the caller, with an in-process cache.",
	},
	{
		name:    "goes-on",
		pattern: phrase(`(?:go|goes|going|went|gone) on(?: (?:with|to|for|as|from|after|until|while|by|at|in|and|where))?`),
		except:  phrase(`(?:is|are|was|were|what's|most|much|lot) going on`),
		instead: "continues, keeps running, proceeds",
		finds:   "A handler that went on for too long is stuck.",
		passes:  "See what's going on.",
	},
	{
		name:    "for-good",
		pattern: phrase(`for good`),
		except:  phrase(`for good (?:reason|reasons|measure)`),
		instead: "permanently; retries exhausted",
		finds:   "The task failed for good.",
		passes:  "It is done for good reason.",
	},
	{
		name:    "in-vain",
		pattern: phrase(`in vain`),
		instead: "without effect, unsuccessfully",
		finds:   "The worker waits in vain.",
	},
	{
		name:    "in-trouble",
		pattern: phrase(`in(?:to)? trouble|(?:is|are|be) in order again|not in order`),
		instead: "failing, unavailable, incomplete; queue error",
		finds:   "The queue is in trouble.",
		passes:  "The tasks run in order.",
	},
	{
		name:    "looked-at",
		pattern: phrase(`looked (?:at|for|after|into|through)|a look (?:at|for)|(?:look|looks|looking) (?:after|at (?:it|them|all|each|every))`),
		instead: "scanned, checked, read",
		finds:   "At most 500 tasks were looked at.",
		passes:  "It looks up the task by its ID.",
	},
	{
		name:    "is-no",
		pattern: phrase(`(?:it|this|that|which|what|they|these|those|here|who)(?:'s| is| are| was) no [a-z]+`),
		except: phrase(`(?:is|are|was) no (?:longer|more|less|fewer|later|earlier|greater|larger|smaller|better|worse|one|such)` +
			`|where there is no|of which there is no`),
		instead: "is not a",
		finds:   "It answers 400 if this is no lease.",
		passes:  "It is no longer valid. There is no lease.",
	},
	{
		name:    "stands-here",
		pattern: phrase(`(?:stands?|stood) (?:here|there|in (?:it|them|redis))|means nothing here`),
		instead: "is set, is stored; is not supported here",
		finds:   "This stands here twice.",
		passes:  "The letter stands for the state.",
	},
	{
		name:    "say-flag",
		pattern: regexp.MustCompile(`(?i)\bsay\s+-{1,2}[a-z]`),
		instead: "use --flag, set --flag",
		kinds:   Comment | Text,
		finds:   "Say --config FILE to read another one.",
	},
	{
		name:    "what-becomes-of",
		pattern: phrase(`what (?:became|becomes|has become|had become|is to become|will become) of`),
		instead: "the outcome of, the result of",
		finds:   "The handler decides what becomes of the task.",
		passes:  "The replica becomes the primary.",
	},
	{
		name:    "listens-to",
		pattern: phrase(`(?:server|servers|worker|workers|who|one) (?:that )?(?:listens?|listening) to`),
		instead: "processes",
		finds:   "No server listens to the queue.",
		passes:  "The process listens on a port.",
	},
	{
		name:    "lately",
		pattern: phrase(`lately`),
		instead: "recently",
		finds:   "There were none lately.",
	},
	{
		name:    "come-a-minute",
		pattern: phrase(`comes? (?:a|per|each) (?:second|minute|hour|day)`),
		instead: "arriving per minute",
		finds:   "Of these, 50 come a minute.",
	},
	{
		name:    "picked",
		pattern: phrase(`picked`),
		in:      []string{"x/web/", "docs/WEB.md"},
		instead: "selected",
		finds:   "Delete the tasks that are picked.",
	},
	{
		name:    "lives",
		pattern: phrase(`(?:server|scheduler|worker|leader|process|client|manager|holder) (?:still )?lives`),
		instead: "is running",
		finds:   "The scheduler lives, and does not enqueue.",
		passes:  "The lease lives in Redis.",
	},
	{
		name:    "comes-or-goes",
		pattern: phrase(`comes? (?:or|and) goe?s?`),
		instead: "enters or leaves, starts or stops",
		finds:   "One that comes or goes meanwhile may be missing.",
	},
	{
		name:    "brought-back",
		pattern: phrase(`(?:be|is|are) brought back|bring (?:it|them) back`),
		instead: "restored; cannot be undone",
		finds:   "Deleted tasks cannot be brought back.",
	},
	{
		name:    "in-the-way-of",
		pattern: phrase(`in the way of|in the way that`),
		instead: "like, as; blocks",
		finds:   "They are called in the way of the tasks.",
		passes:  "The lock is in the way.",
	},
	{
		name:    "archaic",
		pattern: phrase(`lest|whereupon|thereupon|whereof|thereof|therein|wherein|henceforth|hitherto|whilst|amiss|hence|thence|whence|albeit|aught|naught`),
		instead: "a current word: so that … not, then, of it, so",
		finds:   "The lock is kept lest another takes it.",
		passes:  "The latest tasks come first.",
	},

	{
		name:    "old-retry-until",
		pattern: phrase(`in·sist(?:s|ed|ing|ence)?`),
		instead: "retry, retry until; require",
		oldName: true,
		finds:   "The client in·sists until Redis answers.",
		passes:  "The result is consistent.",
	},
	{
		name:    "old-unblock",
		pattern: phrase(`rous(?:e|es|ed|ing)`),
		instead: "unblock, wake",
		oldName: true,
		finds:   "The marker ro·uses one server.",
	},
	{
		name:    "old-remove",
		pattern: phrase(`st·rikes?|st·ruck|striking`),
		instead: "remove",
		oldName: true,
		finds:   "The ID is st·ruck out of the list.",
	},
	{
		name:    "old-repair-target",
		pattern: phrase(`ho·mecomings?`),
		instead: "repair target",
		oldName: true,
		finds:   "The ho·mecoming of a task is its collection.",
	},
	{
		name:    "taker",
		pattern: phrase(`takers?`),
		instead: "Receiver, pull consumer",
		oldName: true,
		finds:   "A Ta·ker leases tasks.",
		passes:  "The caretaker is unrelated.",
	},
	{
		name:    "old-batch",
		pattern: phrase(`po·rtions?`),
		instead: "batch, request share, part",
		oldName: true,
		finds:   "Tasks are read in po·rtions of 200.",
		passes:  "The shares are in proportion to the weights.",
	},
	{
		name:    "doomed",
		pattern: phrase(`doomed|doom`),
		instead: "to delete, marked for deletion",
		oldName: true,
		finds:   "The doomed tasks are deleted in batches.",
	},
	{
		name:    "strays",
		pattern: phrase(`strays?|strayed`),
		instead: "orphan ID, orphaned",
		oldName: true,
		finds:   "The strays of a list have no task.",
	},
	{
		name:    "pluck",
		pattern: phrase(`pluck(?:s|ed|ing)?`),
		instead: "remove, detach",
		oldName: true,
		finds:   "The script plucks the task from its set.",
	},
	{
		name:    "depart",
		pattern: phrase(`depart(?:s|ed|ing|ure|ures)?`),
		instead: "detach, leave",
		oldName: true,
		finds:   "A task departs from its collection.",
		passes:  "The department has a queue.",
	},
	{
		name:    "upkeep",
		pattern: phrase(`upkeep`),
		instead: "maintenance",
		oldName: true,
		finds:   "The upkeep of queues runs in the background.",
	},
	{
		name:    "newcomers",
		pattern: phrase(`newcomers?`),
		in:      []string{"internal/", "x/", "docs/DESIGN", "docs/ARCHITECTURE"},
		instead: "new tasks",
		oldName: true,
		finds:   "The newcomers are added to pending.",
	},
	{
		name:    "fate",
		pattern: phrase(`fates?`),
		except:  phrase(`shar(?:e|es|ed|ing) (?:the|a|their|its) fate`),
		instead: "outcome",
		oldName: true,
		finds:   "The fates of the tasks are reported.",
	},
	{
		name:    "verdict",
		pattern: phrase(`verdicts?`),
		in:      core,
		instead: "decision, outcome",
		oldName: true,
		finds:   "The script returns a verdict for each task.",
	},
	{
		name:    "judge",
		pattern: phrase(`judg(?:e|es|ed|ing|ment|ments)`),
		instead: "decide, check, classify",
		oldName: true,
		finds:   "The script judges the locks.",
	},
	{
		name:    "abdicate",
		pattern: phrase(`abdicat(?:e|es|ed|ing|ion)`),
		instead: "release leadership",
		oldName: true,
		finds:   "The leader abdicates at shutdown.",
	},
	{
		name:    "combiner",
		pattern: phrase(`combiners?`),
		instead: "batcher",
		oldName: true,
		finds:   "The combiner sends many calls at once.",
	},
	{
		name:    "pump",
		pattern: phrase(`pumps?|pumped|pumping`),
		instead: "fetcher",
		oldName: true,
		finds:   "The pump fetches tasks.",
	},
	{
		name:    "turn",
		pattern: phrase(`(?:a|an|the|one|each|every|this|that|next|last|first|second|per|other|another|two|many|most|its|such|no|more|few|fewer|both|of|quick|slow|failed|own) turns?|turns (?:of|that|to|per|are|at|on)`),
		except:  phrase(`(?:in|by|out of|each in) (?:its |their |his |your )?turns?|turns? (?:out|into|on|off|up|back|down|around|red|green)|in the turn of|turn of the`),
		in:      append([]string{"docs/DESIGN", "docs/ARCHITECTURE", "docs/RELIABILITY", "docs/OTEL", "docs/METRICS", "x/otel", "x/metrics"}, core...),
		instead: "round trip",
		oldName: true,
		finds:   "At Concurrency 1 a task costs one turn.",
		passes:  "Each queue is read in its turn. This turns out to be slow.",
	},
	{
		name:    "trip",
		pattern: phrase(`trips?`),
		except:  regexp.MustCompile(`(?i)\bround[\s-]+trips?\b`),
		instead: "round trip, in-flight request",
		oldName: true,
		finds:   "Two trips are on their way.",
		passes:  "It saves a round trip.",
	},
	{
		name:    "flight",
		pattern: phrase(`flights?`),
		except:  regexp.MustCompile(`(?i)\b(?:in|single)[\s-]+flight\b|\bpre-?flight`),
		instead: "in-flight request, batch",
		oldName: true,
		finds:   "The flight lands with its answers.",
		passes:  "Tasks in flight are settled. An in-flight request.",
	},
	{
		name:    "set-aside",
		pattern: phrase(`(?:set|sets|setting) (?:\w+ )?aside`),
		except:  phrase(`(?:set|sets|setting) (?:room|memory|space) aside|(?:set|sets|setting) aside (?:room|memory|space|for)`),
		instead: "archive as invalid",
		oldName: true,
		finds:   "Tasks that cannot be read are set aside.",
	},
	{
		name:    "doubt",
		pattern: phrase(`doubts?|doubted|doubtful`),
		except:  phrase(`(?:when|never|if|no) (?:in )?doubt`),
		instead: "unknown, unknown fetch",
		oldName: true,
		finds:   "A fetch in doubt is repeated.",
		passes:  "It is undoubtedly idempotent.",
	},
	{
		name:    "unfetch",
		pattern: phrase(`unfetch(?:es|ed|ing)?`),
		instead: "reclaim, return to pending",
		oldName: true,
		finds:   "Tasks of an unknown fetch are unfetched.",
	},
	{
		name:    "dry",
		pattern: phrase(`dry|dries|dried`),
		except:  regexp.MustCompile(`(?i)\bdry[\s-]+runs?\b`),
		instead: "empty",
		oldName: true,
		finds:   "A dry queue is polled less often.",
		passes:  "It is a dry run.",
	},
	{
		name:    "owed",
		pattern: phrase(`owed|owes|owing`),
		instead: "unsettled, pending",
		oldName: true,
		finds:   "The outcomes that are owed are sent first.",
	},
	{
		name:    "patience",
		pattern: phrase(`(?:im)?patience`),
		instead: "timeout, grace period, retry budget",
		oldName: true,
		finds:   "The patience of the connection ends.",
	},
	{
		name:    "hand-over",
		pattern: phrase(`(?:hand|hands|handed|handing) (?:it |them |\w+ )?over|handovers?`),
		except:  phrase(`(?:by|at|second|other) hand over`),
		instead: "commit, deliver, pass",
		oldName: true,
		finds:   "The set is handed over to the aggregator.",
	},
	{
		name:    "regroup",
		pattern: phrase(`regroup(?:s|ed|ing)?`),
		instead: "return to group",
		oldName: true,
		finds:   "Expired sets are regrouped.",
	},
}

// nameRules lists the words that declarations and files must not have in their names.
var nameRules = []nameRule{
	named("in·sist in·sists in·sisted in·sisting in·sistent", "retry, retryUntil"),
	named("ro·use ro·uses ro·used rousing", "unblock, wake"),
	named("st·rike st·rikes st·ruck striking", "remove"),
	named("ho·mecoming ho·mecomings", "repairTarget"),
	named("ta·ker ta·kers", "Receiver"),
	named("po·rtion po·rtions", "batch, share"),
	named("combiner combiners", "batcher"),
	named("pluck plucks plucked", "remove"),
	named("depart departs departed", "detach"),
	named("doomed", "toDelete"),
	named("strays stray", "orphans"),
	named("upkeep", "maintenance"),
	named("newcomer newcomers", "newTasks"),
	named("abdicate abdicates abdicated", "release"),
}
