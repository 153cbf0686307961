"""The words by which a sentence is seen to remind of something, and those by which it is seen not to."""

from __future__ import annotations

import re

from memsvc.text.analysis import HAN

DAY = "\x1f"
"""The place of the day in a clause."""
DATE_CUE = re.compile(
    r"[0-9]|day|hour|minute|小时|分钟|钟头|刻钟|tomorrow|tomorow|tmr|tonight|this |week|month|year|fortnight|overmorrow"
    r"|first|eenth|tieth|eleventh|tenth|twelfth|[日号天周期拜晚早儿月年]|[一二两三四五六七八九十]点"
    r"|[除七]夕|双十[一二]|中秋|国庆|元旦|端午|清明|圣诞|节|五一|腊八|重阳|冬至|平安夜|christmas|halloween|eve\b"
    r"|\b(?:mon|tue|wed|thu|fri|sat|sun|eom|eoy|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
)
"""A sentence without it names no day."""


def _any(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(alternatives), re.IGNORECASE)


def _words(text: str) -> str:
    """Return an expression for one of the words that white space parts."""
    return "|".join(text.split())


HYPOTHETICAL = _any(
    r"\b(?:suppose|supposing|imagine|unless|pretend\w*"
    r"|wish(?! (?:me|us|him|her|them) )|wishing|would(?!n['’]t forget| you\b)|wouldn['’]t"
    r"|could have"
    r"|should have|should['’]ve|shoulda|i['’]d (?:be|have|love|like)|we['’]d (?:be|have|love|like))\b",
    r"\b(?:might|maybe|perhaps|probably|possibly|not sure|unsure|no idea (?:if|whether|when|what day)|i think"
    r"|i guess|thinking (?:of|about)|i hope"
    r"|hopefully|hoping|tempted|fancy|ideally|or so|around(?= (?:\d|noon|mid|the ))"
    r"|roughly|some ?time|at some point|one day|some day|someday"
    r"|sooner or later|tentative(?:ly)?|what if|as if|do something|['’]d rather|glad|relieved|(?:you|one"
    r"|people|anyone|they) can(?!['’])|feels?|feeling)\b",
    r"\b(?:may|could) (?:be|have|not|still|well|also|slip|move|change|need|start|come|go|take|get|happen|end|drop)\b",
    r"\b(?:thinks|reckons|believes|guesses|suspects|doubts?)\b",
    r"早知道|觉得|认为|怀疑|[我他她们]猜|假如|假设|假使|万一|倘若|要不是|就好了|但愿|希望|真想|好想|要是|如果|若是|的话|可能|也许|或许|大概|大约"
    r"|说不定|不一定|估计|左右|看情况"
    r"|没准|搞不好|兴许|应该是|好像|似乎|考虑|打算要不|犹豫|幻想|想象|恨不得|改天|哪天|总有一天|有朝一日"
    r"|早晚要|再不(?![交办还续买缴付])|下[次回]再",
)
"""Supposed, wished, or in doubt."""
CONDITION = re.compile(
    r"\A\s*(?:(?:and|but|so|well|ok(?:ay)?|hey|even|only)\s+)*(?:if|whether|unless)\b", re.IGNORECASE
)
"""Begins a clause whose condition governs the rest of the sentence."""
IF = re.compile(r"\b(?:if|whether)\b", re.IGNORECASE)
DENIED = _any(
    r"\A\W*(?:(?:and|but|so|sorry|unfortunately|sadly),?\s+)?(?:(?:i|we) have )?no (?!later|problem|worries"
    r"|doubt|matter|need|sooner|rush|kidding|idea|wonder|longer|pressure|excuse|more|fewer|less)"
    r"(?:[a-z’'-]+\s+){1,3}?(?:on |for me |for us |until |till )?\x1f",
    r"\b(?:not|isn['’]?t|aren['’]?t|won['’]?t|wasn['’]?t|doesn['’]?t|don['’]?t have|no longer|never|nothing|cannot"
    r"|can['’]?t|nobody|without a|there['’]s no|there is no|no (?:meeting|class|appointment|school|lesson"
    r"|practice)\w*)\b",
    r"\b(?:don|doesn|didn|won|aren|isn|haven|hasn)['’]?t\b(?! (?:be late|miss|let|want to miss))[^\x1f]*\x1f",
    r"\b(?:scrap|cancel|forget|drop) (?:about )?(?:the |my |that )?\x1f",
    r"\x1f没(?:啥|什么)?事(?=[，。,！!\s]|\Z)",
    r"\b(?:cancell?ed|called off|scrapped|ditched|waived|is off|it['’]s off|fell through|no-?go|over and done"
    r"|skipp(?:ed|ing)"
    r"|bail(?:ed|ing))\b",
    r"取消|作废|泡汤|黄了|吹了|本来|原本|原计划|原来[订定约计打安]|不去|不用|不必|没(?!问题|事|关系|忘)|谁也没|不是|也不|才不|绝不|从不|从来[不没]|不会|不再|并非"
    r"|撤了|撤销|不开|不考|不上|没空|不办|不想|不需要|无需|不能|算了",
)
"""Denied, or called off, in the clause of the day."""
THOUGHT = _any(
    r"\b(?:thought|used to|supposedly|allegedly|daily|every ?day|every (?:morning|evening|night)|each day)\b",
    r"以为|每天|每日|天天|曾经|没人提醒|谁也没提醒|没提醒|[他她](?:们)?(?:让|叫)我")  # fmt: skip
TOLD = _any(
    r"\bsome (?:\w+ )?(?:celeb(?:rity)?|actor|singer|guy|man"
    r"|woman|kid|girl|boy|dude|person|student|stranger|colleague|co-?worker"
    r"|neighbou?r|customer)s?\b"
    r"|\A\W*an? (?:guy|man|woman|kid|girl|boy|dude|colleague|co-?worker|neighbou?r|customer|stranger"
    r"|friend of a friend)\b",
    r"\b(?:a|an|the average|the normal) (?:average |normal )?(?:person|human(?: being)?|adult)\b",
    r"\b(?:function|method|query|api|endpoint|parser|regex|command|expression|macro)\b[^.;]{0,20}\b(?:returns?|yields?|outputs?"
    r"|prints?|gives?|computes?|accepts?|parses?)\b|(?:函数|方法|接口|代码|脚本|正则)[^。；]{0,6}(?:返回|输出|打印|计算|解析)",
    r"\b(?:horoscope|prophecy|fun fact|did you know|trivia)\b|说[他她]|的说法|假的|谣|有个(?:朋友|同事|人"
    r"|同学|网友|客户)",
    r"\b(?:he|she|they|somebody|someone|everyone|everybody|people|(?:some|a|this|that|the) (?:guy|man|woman|girl|boy"
    r"|lady|bloke"
    r"|dude|kid|stranger|person|friend of a friend|customer|passenger|character|hero(?:ine)?|narrator|author"
    r"|reporter)s?)\b"
    r"[^.;]{0,40}\b(?:said|says|told|tells|claims?|mentioned|announced|wrote|writes|goes(?= like\b|,? that\b|[:,])"
    r"|posted|tweeted)\b(?!\s{4})",
    r"\b(?:heard|overheard|rumou?rs?|apparently|reportedly|word is|read (?:that|about|somewhere)|saw (?:that|on)"
    r"|according to)\b",
    r"\b(?:in|of) (?:the|a|this|that|my|her|his) (?:\w+ )?(?:novel|story|book|movie|film|series|show|episode|game"
    r"|play|dream|poem"
    r"|song|chapter|scene|plot|legend|myth|fairy tale|podcast|documentary|biography)\b",
    r"\b(?:the|this|that) (?:\w+ )?(?:novel|story|movie|film|series|episode|poem|song|chapter|scene|plot|legend"
    r"|biography)"
    r"\s+(?:opens|begins|starts|ends|is set|takes place|is about|goes|tells|says)\b",
    r"\b(?-i:[A-Z][a-z]+) (?:reckons|thinks|believes|claims|swears)\b|\b(?:her|his|the|my|that) character\b",
    rf"[老小阿][{HAN}]{{1,2}}?(?:觉得|认为|猜)|报纸上|报上|新闻里|朋友圈|微博|热搜|抖音",
    r"\bin (?:chapter|episode|season)\b|\bon page\b|\b(?:protagonist|detective|villain|fictional|main character"
    r"|historically|in history|sitcom"
    r"|once upon)\b",
    r"\b(?:the|an?|this|that) (?:ad|advert|commercial|poster|headline|article|newspaper|meme|tweet|sign"
    r"|label|logs?|log ?file|error|console|output|stack ?trace|changelog|docs?|manual|wiki|readme) (?:\w+ )?(?:says?"
    r"|said|reads?|shows?|claims?)\b|(?:日志|报错|控制台|文档|手册|说明书)(?:里|上|中)?(?:写|说|显示)",
    r"\b(?:dreamt|dreamed|dream) (?:that|about|of|i|we)\b|\bfor example\b|\be\.g\.|\bsay,? on\b",
    r"听说|听[^，。,]{1,6}说|网上[^，。,]{0,4}说|看到说|真是|的一天(?=[。！，,\s]|\Z)|据说|传闻|听人说|谣传|传言|小道消息"
    r"|网上说|新闻(?:里|上)?说|报道|有人(?:说|讲)|书(?:里|上|中)|小说(?:里|中|的|上)|电影(?:里|中|上"
    r"|结局|开头|讲|演)|电视剧(?:里|中|上)"
    r"|星座|运势|算命|侦探|凶手|第[一二三四五六七八九十\d]+[集季回]|反派|女二|男二|情节|反转|剧里|剧中|片子里|故事|主角|主人公"
    r"|男主|女主|剧情|梦见|梦到|做梦|游戏里|历史上|古代|那年|当年|传说|台词|歌词|歌里|广告|比如|例如|譬如|假装"
    r"|[他她](?:们)?(?:又|还|跟我|和我|也|老)?(?:说|讲|提到)"
    r"|(?:隔壁|(?<![替帮给跟和])邻居|路人|别人|(?<!答应)(?<![替帮给跟和欠])人家(?!说[^，。,；]{0,16}(?:就行|也行|就成|即可))|网友|陌生人|楼上|楼下)",
)
"""Hearsay, stories, examples: not of the user."""
RELAYED = re.compile(
    r"(?:\b(?:(?:my|our|the) )?(?:doctor|doc|dentist|physio|vet|plumber|electrician|mechanic|builder|movers"
    r"|boss|manager|landlord|landlady|teacher|school|bank"
    r"|garage|clinic"
    r"|hospital|lawyer|solicitor|accountant|hr|wife|husband|partner|mum|mom|dad|mother|father|sister|brother|plumber"
    r"|electrician|surgery|gp|council|agency|client|professor|tutor|coach|nurse|receptionist|office|they)"
    r" (?:just )?(?:said|says|told (?:me|us)|called(?: to say)?|confirmed|rang(?: to say)?|emailed|texted|wrote"
    r"|wants?|reminded (?:me|us))"
    r"(?: that)?(?: (?:he|she|they|it)(?:[’']d| would| will))?\b(?! (?:me|us|him|her|them) to remind))"
    r"|(?:医生|大夫|老板|领导|老师|房东|客户|学校|银行|医院|经理|物业|律师|导师|公司|人事"
    r"|我[妈爸老]\w{0,2})(?:刚才?)?(?:说|通知|让我|叫我|要求)",
    re.IGNORECASE,
)
"""News for the user from those who set dates for them; what follows is read by itself."""
NOT_FOR_US = _any(
    r"\b(?:end|start|begin|finish|close) (?:every|each|all your) (?:answer|repl(?:y|ies)|response)s?\b"
    r"|每[个次条](?:回答|回复|答复)",
    r"\A\W*make (?:this|it|that) (?:sound|look|read|less|more|shorter|longer|nicer)\b"
    r"|[把将][^，。]{0,8}(?:翻[成译]|改写|润色)",
    r"\b(?:per ?cent|dataset|on average)\b|\b(?:film|movie|book|show|novel|story)(?:['’]s| is) about\b",
    r"\b(?:lad|girl|guy|man|woman|couple|family|kid|bloke)s? (?:upstairs|downstairs|next door|opposite|across)\b",
    r"\A\W*我?(?:同学|室友|同事)(?![会聚群录])(?![^。]*(?:我|咱|一起|生日))"
    r"|[他她](?:儿子|女儿|妈|爸|老公|老婆)(?![^。]*(?:我|生日|周年|忌日))|[唐宋元明清秦汉]朝|皇帝",
    r"\b(?:regex|cron|in excel)\b|跟我没关系|不关我|没我(?:什么|啥)?事|就是想想|那会儿",
    r"\b(?:i|we) ?(?:ca(?:n['’]?t|nnot)|wo(?:n['’]?t)) be there\b|\b(?:i['’]?m|we['’]?re) not (?:going|invited)\b",
    r"\A\W*(?:my |our )?(?:brother|sister|cousin|uncle|aunt|friend|mate|roommate|flatmate|housemate|colleague"
    r"|coworker|boss|neighbou?r|ex|\w+ from work)\b[^,.;]{0,12}?"
    r" (?:has (?:his|her|their|surgery|an?)(?! (?:birthday|wedding|anniversary))"
    r"|flies(?! (?:in|over|back|home|here|to (?:us|me|visit|see))\b)|defends|runs|leaves for"
    r"|is (?:away|off|on leave|on call))\b"
    r"(?![^.;]*\b(?:i|we|i['’]?(?:m|ll|ve)|we['’]?(?:re|ll|ve))\b)",
    r"\blucky (?:sod|him|her|them|thing|devil|git|bugger|bastard|so-and-so)s?\b|\bso jealous\b|羡慕|没请我"
    r"|\b(?:not|n['’]t|wasn['’]t|weren['’]t) invited\b|\b(?:romans?|medieval|ancient|victorians?|emperor)\b",
    r"\b(?:rain|rains|raining|rainy|snow|snows|snowing|sunny|cloudy|weather|forecast|degrees|heatwave|storm|foggy)\b",
    r"\b(?:see|catch|talk to|speak to|meet) (?:you|ya)\b|\b(?:cya|good ?night|have a (?:nice|good|great|lovely))\b",
    r"\b(?:i|we) (?:love|hate|like|prefer|enjoy|dread) (?:\w+ )?(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b"
    r"|\b(?:i|we) (?:\w+ )?(?:love|hate|like|prefer|enjoy|dread) [^,.;]{1,40}"
    r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)days\b"
    r"|\b(?:is|are|was|were) (?:\w+ )?(?:my|our|his|her|their) (?:\w+ )?favou?rite\b"
    r"|\A\W*(?:mon|tues|wednes|thurs|fri|satur|sun)days? (?:is|are) (?:usually |always )?"
    r"(?:my|our|his|her|their|an?) (?:[\w-]+ )?days?\b",
    r"\A\W*(?:每个?)?(?:周|星期)[一二三四五六日天]都?是(?:我|他|她|咱)们?的",
    r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)day again\b|\bhappy (?:friday|monday|new year|birthday)\b"
    r"|\b(?:black|good|casual|cyber|ash) (?:friday|monday|wednesday)\b",
    r"\b(?:free|available|busy|around|bored|tired|off) (?:on|this|next|tomorrow)\b",
    r"\A\W*(?:please |pls |can you |could you )*(?:translate|explain|summari[sz]e|describe|define|calculate|convert"
    r"|compute|generate"
    r"|compose|make up|invent|proofread|tell me(?! to\b| the (?:day|week|night|morning) before)"
    r"|what|who|why|how|list|show me|find|search|look up|give me(?! a (?:nudge|shout|heads)))\b",
    r"\A\W*(?:please |pls |can you |could you )*(?:write|draft)(?: me| us)? (?:an?|some|the) (?:\w+ ){0,2}(?:poem"
    r"|story|song|haiku"
    r"|limerick|joke|letter|essay|tweet|caption|email|mail|message|note|function|script|query|test|regex|program"
    r"|speech|toast|invitation|invite|agenda|announcement|itinerary|blurb|flyer)\b",
    r"下雨|下雪|天气|晴天|阴天|多云|气温|降温|台风|预报|[明后]天见|周[一二三四五六日天]见|再说(?=[吧。！，,\s]"
    r"|\Z)|再聊|晚安|早安|快乐|\bask me again\b|\bwe(?:[’']ll| will) see\b|又是(?:周|星期)|又到(?:周|星期)",
    r"\A\W*(?:请|麻烦|帮我|给我|你)*(?:翻译|解释|写[一个首篇段封]|编[一个]|总结|概括|介绍|算一?下|计算"
    r"|查一?下|讲[一个]|画|列出|举例|造句)",
    r"(?:喜欢|讨厌|最爱|最恨|害怕|偏好|习惯)(?:[过在]|每个?)?(?:周|星期)|是(?:我|他|她|咱)们?(?:家\w{1,3})?最(?:喜欢|爱|讨厌|怕)",
)
"""Weather, farewells, tastes, and work for the assistant."""
_KIN = (
    r"(?:brother|sister|mother|father)-in-law|brother|sister|cousin|uncle|aunt(?:ie)?|nephew|niece|mum|mom|mother|dad|father"
    r"|gran(?:ny|dma|dpa|dad)?|friend|mate|buddy|(?:room|flat|house)-?mate|colleague|co-?worker|boss|manager|neighbou?r|ex"
)
_ABROAD = r"(?:to (?-i:[A-Z])\w+|abroad|away|on (?:a (?:business |work )?trip|holiday|vacation|leave))"
_ROOMS = (
    r"boiler|gas|heating|water|washing machine|fridge|oven|dishwasher|tv|broadband|internet|wi-?fi|phone|cable"
    r"|air ?con|alarm"
    r"|meter|roof|windows?|carpet|kitchen|bathroom|damp|solar|garage door|lift|piano|pool|hvac|a/?c|appliance"
    r"|furniture|drains?"
    r"|aerial|tree|hedge|lawn|pest|removals?|moving|delivery|repair|council|energy|electricity"
)
_TRADE = (
    r"(?:plumber|electrician|builder|roofer|glazier|plasterer|decorator|painter|joiner|carpenter|tiler|locksmith"
    r"|handyman"
    r"|handymen|gardener|cleaner|chimney sweep|mover|pest control|exterminator|surveyor|meter reader|engineer"
    r"|technician"
    r"|fitter|installer|repairm[ae]n|courier|delivery|deliveries|parcel|package"
    rf"|(?:{_ROOMS}) (?:m[ae]n|lady|wom[ae]n|guy|people|person|company|bloke|lad|chap|folks|firm|van|driver|service))s?"
)
_COMES = (
    r"(?:(?:is|are|['’]s|['’]re|will be|should be|has to be) (?:now |also |finally |only )?"
    r"(?:coming(?! on strike| to terms)|due|booked|scheduled|here|round|popping (?:in|round|by|over)|turning up"
    r"|arriving|visiting|stopping by"
    r"|dropping by|delivering|(?:being |getting )?delivered)|comes?|arrives?|turns? up|gets? (?:here|delivered)"
    r"|(?:will|['’]ll) (?:come|arrive|call|turn up|visit|deliver|be here|be delivered))"
)
_HAN_TRADE = (
    r"(?:师傅|电工|水管工|木工|油漆工|保洁|钟点工|家政|物业|(?:燃气|煤气|电力|自来水|搬家|宽带)公司|供电局|快递|包裹"
    r"|送货员?|安装工|维修工|维修人员|安装人员"
    r"|阿姨(?=[^，。,；]{0,6}来(?:打扫|做饭|做卫生|搞卫生))|[修装送搬](?!饰|备|逼)[^，。,；我他她你]{1,6}的(?=来"
    r"|上门|过来|到))"
)
_HAN_COMES = r"(?:(?<![将未原本从近])来(?!自|着|电|不及|得及|回|往|源)|上门|送到|送来|送货|送达|到货|到家)"
_NOTHING_FOR_US = (
    r"(?![^;]*(?:\b(?:i|we|me|us|our|ours|i['’]?(?:m|ll|ve|d)|we['’]?(?:re|ll|ve|d))\b"
    r"|\b(?:remind|let (?:him|her|them) in)\b))"
)
_OWN_JOB = (
    r"(?:his|her|their|an?|the) (?:[\w-]+ ){0,2}(?:job|role|position|post|internship|apprenticeship|placement"
    r"|traineeship|shift|degree|course|master['’]?s|phd)"
)
AFFAIR_OF_OTHERS = _any(
    rf"\A\W*(?:(?:so|btw|fyi|oh|and|also|well|apparently),? )?(?:my|our) (?:\w+ )?(?:{_KIN})s?(?: (?-i:[A-Z])\w+)?"
    r"(?:['’]s|['’]re| is| are| will| has to)? (?:just |also |finally |probably )?(?:be )?"
    r"(?:(?:fly|flies|flying)\b(?! (?:in|over|back|home|here|(?:to|and) (?:us|me|visit|see|join))\b)"
    rf"|(?:go|goes|going|travels?|travell?ing|drives?|driving|heads?|heading|off|moves?|moving|relocat(?:e|es|ing))"
    rf" {_ABROAD}"
    r"|(?:leave|leaves|leaving) for\b"
    rf"|(?:start|starts|starting|begins?|beginning) (?:{_OWN_JOB}\b|work(?:ing)?\b|at (?-i:[A-Z])"
    r"|uni(?:versity)?\b|college\b)"
    r"|(?:work|works|working) (?:on|this|next|all|late|nights|a |from|tomorrow|tonight|over)|on (?:call|duty|shift)\b"
    r"|(?:have|has) (?:got )?(?:an?|(?:his|her|their)) (?:\w+ )?"
    r"(?:interview|shift|conference|work trip|business trip|work do))"
    r"(?![^;]*(?:\b(?:i|we|me|us|my|our|ours|here|with you|i['’]?(?:m|ll|ve|d)|we['’]?(?:re|ll|ve|d))\b"
    r"|\b(?:remind|forget|remember|must|buy|send|call|ring|text|wish|congratulate|pick|drop|lift|card|gift"
    r"|feed|water|walk|mind|help|join|babysit|look after|due|deadline|present|birthday|wedding"
    r"|anniversary|visit\w*|stay\w*)\b))",
    r"\A\W*(?:(?:我|咱)们?家?(?:哥们?|姐|弟|妹|爸|妈|舅|姑|姨|叔|伯|婶|嫂|侄|外甥)|我?(?:哥哥|姐姐|弟弟|妹妹|爸爸|妈妈|爸妈|[表堂][哥姐弟妹]|舅舅|姑姑"
    r"|姨妈|叔叔|伯伯|嫂子|姐夫|妹夫|朋友|闺蜜|发小|哥们|前任|同桌|室友|同事|老板|领导))[哥姐弟妹爸妈舅姑姨叔伯子女夫]?"
    r"(?![^。；]*(?:我|咱|一起|来|接|送|回[家来]|到家|生日|婚|周年|提醒|记得|别忘|家长会|手术|医院|复查|体检|祝|红包|礼物|庆祝|[陪帮替喂交]|照看))"
    r"[^，。,；]{0,14}?(?:飞(?!机)|出差|入职|上班|开工|实习|跳槽|面试|考试|考研|答辩|加班|值班|述职|调去|外派|出国|旅游|旅行|度假"
    rf"|去(?![办拿取买看见做开交换问])[{HAN}]{{2,4}}(?=[，。！!,\s]|\Z))",
    rf"\A\W*(?:(?:my|our|the) (?:\w+ )?(?:{_KIN}|neighbou?r)s?(?: next door| upstairs| downstairs)?|next door"
    rf"|(?-i:[A-Z])[a-z]+)"
    rf"(?:(?:['’]s|['’]) (?:[\w-]+ ){{0,2}}?{_TRADE} {_COMES}\b"
    rf"|(?:['’]s got|['’]ve got| has| have| is having| are having| got)(?: got)? (?:an?|the|their|his"
    rf"|her) (?:[\w-]+ )?{_TRADE}\b)"
    rf"{_NOTHING_FOR_US}",
    rf"\b{_TRADE}(?:['’]s)? {_COMES} (?:[\w-]+ ){{0,4}}?(?:to|round to|over to|at) (?:(?:his|her|their)\b"
    rf"|(?:my|our|the) (?:\w+ )?(?:{_KIN}|neighbou?r)s?['’]|(?-i:[A-Z])[a-z]+['’]s\b|next door\b){_NOTHING_FOR_US}",
    r"(?:邻居|隔壁|楼[上下]|对门|同事|同学|朋友|闺蜜|[他她]们?|(?:我|咱们?)?(?:[表堂]?[哥姐弟妹]|爸妈|爸|妈|舅|姑|姨"
    r"|叔|奶|爷|婆婆|岳父)[哥姐弟妹爸妈舅姑姨叔奶爷]?)们?家"
    rf"(?:里|的)?(?:[^，。,；我]{{0,12}}(?:{_HAN_TRADE}|来[修装])[^，。,；]{{0,10}}{_HAN_COMES}"
    rf"|[^，。,；我]{{0,8}}来[修装])(?![^。；]*(?:我|咱|提醒|帮))",
)
"""The travel or work of a relative, a friend or a flatmate, with nothing in it for the user.

Visits, birthdays and weddings are none of it, nor is what concerns the user's children or spouse.
"""
OVER = _any(
    rf"\bno more (?!than\b)(?:[a-z]+ ){{0,2}}{DAY}|\b(?:no|not|rather than|instead of) {DAY}"
    rf"|\b(?:done|finished|through) with (?:the |my |our |those |these )?{DAY}"
    rf"|\bend of (?:the |my |our |those |these )?{DAY}"
    rf"|{DAY}[^,;.]{{0,30}}\b(?:any ?more|any longer)\b"
    rf"|{DAY}(?: are| is|['’]s|['’]re) (?:now |all |finally )*(?:free|open|clear|empty|mine|ours)\b"
    r"(?! (?:for|of|entry|to)\b)"
    rf"|\b(?:moved|switched|shifted|changed)\b[^,;.]{{0,20}} from {DAY}"
    rf"|从{DAY}(?:的)?[^，。,；]{{0,4}}[改换挪调移]"
    rf"|\b(?:have|get|got|having) (?:my |our |the )?{DAY} (?:back|free|off|to (?:myself|ourselves))\b",
)
"""In the clause of a weekday: what took place on it is over."""
STANDING = _any(
    r"\b(?:from now on|going forward|permanently|for good|weekly|every week|each week|this (?:term|semester|season)"
    r"|for the rest of the (?:term|year|season))\b",
    r"以后(?!再)|今后|从今(?:往后|起)|每个?(?:周|星期|礼拜)|从?下个?(?:周|星期|礼拜|月)起|这学期|本学期|固定|长期|(?<![这本上下])周例会|周课",
)
"""Beside a weekday to which something was moved: it takes place on it every week."""
_HAN_WEEKDAY = "每?个?(?:周|星期|礼拜)[一二三四五六日天]"
REGULAR = _any(
    r"\b(?:yoga|pilates|zumba|choir|practice|training|class|lesson|course|club|stand-?up|rehearsal|swimming|gym|football|band"
    r"|piano|guitar|violin|tuition|tutoring|therapy|shift)s?\b",
    r"(?<!试听)(?<!公开)(?<!体验)(?<!补)课(?!题|本|文)|例会|站会|训练|排练|健身|瑜伽|普拉提|合唱团",
)
"""What takes place every week as a rule."""
FROM_WEEKDAY = _any(
    r"\bfrom (?P<en>mon|tues|wednes|thurs|fri|satur|sun)days? to (?:mon|tues|wednes|thurs|fri|satur|sun)days?\b",
    rf"从(?P<zh>{_HAN_WEEKDAY})[^，。,；]{{0,6}}[改换挪调移](?:到|成|为|至){_HAN_WEEKDAY}",
)
"""From a weekday to another one, neither of them of a week that is named."""
ENDED = _any(
    r"\b(?:quit|stopped|given? up|gave up|dropp?(?:ed|ing)|no longer|any ?more|for good|last one|finish(?:ed|es)?)\b",
    r"不再|退了|停了|戒|最后一次|以后不|不(?:学|练|去|上|跳|打)了(?!这|本|下)",
)
"""Beside a week: what takes place every week is over."""
THIS_WEEK = _any(r"\b(?:this|next) week\b(?! on\b)|(?:[这本]|下)个?(?:周|星期|礼拜)(?!起)|[这下]次")
"""It does so once."""
ELSEWHERE = _any(
    r"(?<!gate )(?<!door )(?<!doors )(?<!window )(?<!registration )(?<!applications )(?<!enrolment )(?<!enrollment )"
    r"(?<!voting )(?<!entries )(?<!submissions )(?<!nominations )"
    r"\b(?:open(?! (?:house|day|evening|mic))|opens|opened|closes|closed)\b"
    r"(?! (?:an? |my |our |the )?account)",
    r"\b(?:christmas|xmas|easter|thanksgiving|halloween|valentine['’]?s day|new year['’]?s(?: day| eve)?|diwali"
    r"|hanukkah|ramadan"
    r"|independence day|labor day|memorial day|mother['’]s day|father['’]s day|bank holiday)\s+(?:is|falls|will be"
    r"|comes)\b",
    r"(?:\bis|['’]s) (?:an? )?(?:public |bank |national )?holiday\b"
    r"|是[^，。我\d一二三四五六七八九十]{1,8}(?:节|(?<![生念止工薪假末])日)(?=[，。！\s]|\Z)",
    r"\bis (?!the day )(?:[A-Za-z]+ ){1,3}day\b(?! off)|(?:是|[号日])\s*(?:儿童|母亲|父亲|端午|中秋|国庆|劳动|情人|圣诞"
    r"|教师|植树|妇女|愚人|清明|重阳|元宵)节(?=[。！\s]|\Z)",
    r"\bshuts\b|\b(?:two|2) for (?:one|1)\b|\bhalf[- ]price\b|\bhappy hour\b|\b\d+ ?% off\b|买一送一|半价|特价",
    r"\b(?:episode|season|finale|series|movie|film|trailer|album|single|game|patch)s?\b[^,.;]{0,25}"
    r"\b(?:airs?|drops?|premieres?|streams?|comes out|is out)\b|首播|开播|上映",
    r"点(?:钟|半)?(?:关|开)门?(?=[\s，。,！!]|\Z)|\d+块\d*[^。；;]{0,8}(?:现在|今天|如今)[^。；;]{0,6}\d+块?",
    r"\b(?:shuts?|open|closed|shut) (?:until|till|from|on|mon|tues|wednes|thurs|fri|satur|sun)\w*\b",
    r"(?:开|关|营业)到(?:早上|上午|中午|下午|晚上|凌晨|夜里|半夜)?[\d一二两三四五六七八九十]+点|休馆|不营业|歇业|打烊|停业|休业",
    r"\d+比\d+|政策|条款|新规|收盘|开盘|股价|涨停|跌停|大盘|今天(?:都|就|已经)?(?:涨到)?\d+(?:块|元)?了",
    r"\b(?:shares?|stocks?|index|nifty|sensex|nasdaq|ftse|dow)\b[^.;]{0,40}\b(?:closed|opened|fell|rose|gained|at \d)",
    r"发车|到站|营业|开门|关门|开馆|闭馆|开放时间|(?:节|元旦|除夕|国庆|冬至|清明)(?:是|就是|在)\W{0,2}",
)
"""Opening hours, and what day a holiday is."""

_NO = r"\b(?:\w+n['’]t|dont|neednt|cannot|never|not|no need|stop)\b(?!\s+you\b(?!\s+dare))"
_UP_TO = r"(?:(?!\b(?:forget|fail|hesitate|mind|remember|miss|so|but)\b)[^,.;:!?–—]){0,60}?"
_HAN_NO = (
    r"(?:(?<![特分个区告级性类差识离送辨])别(?![人的处])|不要(?!紧)|不用|不必|不需|不须|[无毋][需须]"
    r"|没有?必要|用不着|犯不着|勿|甭"
    r"|不许|不准|停止|不再|不(?:想|希望|愿意?)(?=[让要你您被再])|不会?(?=提醒))"
)
_HAN_UP_TO = r"(?:(?!忘|提醒)(?:[^，。,；;！!？?、：:]|[：:](?=[0-9]))){0,30}"
REFUSED = _any(
    rf"{_NO}{_UP_TO}\b(?:remind(?:ing)?\b|(?:set|need|want|send|give)\b[^,.;:!?]{{0,20}}\b(?:reminder|alarm)s?\b)",
    r"\b(?:no|without) (?:\w+ )?(?:reminder|alarm)s?\b",
    rf"{_HAN_NO}{_HAN_UP_TO}提醒",
    r"\b(?:forget|scrap|delete|drop|cancel|ignore|remove) (?:about )?(?:the|that|my|this|\w+['’]s) (?:\w+ )?"
    r"(?:reminder|alarm)s?\b",
    r"提醒(?:就|可以|都|给我)*(?:删|取消|撤|关)|(?:删|取消|关)(?:掉|了)?(?:那个|这个|这条|那条)?提醒",
)
"""Not to be reminded of, in one breath; but "don't forget to remind me" and 别忘了提醒我 ask for it."""
_FORGET = r"\b(?:do not|don['’]?t) (?:let me |let us )?forget\b"
ALLOWED_NOT = _any(
    _FORGET,
    r"(?P<to>\bremind (?:me|us)\b[^,.;:!?]{0,60}?)\b(?:not to|never to|to not|to never)\b",
    r"不[^，。,；不]{1,6}就(?:没|来不及|晚|完|作废|过期|要?罚)[^，。,；]{0,8}",
)
"""Refuses nothing: what is not to be forgotten, and what one is to be reminded not to do, behind the group *to*."""
QUESTION = _any(
    r"[?？]|[吗呢么]\s*[。！，,]?\s*\Z|还[有剩]几|什么样|啥样|怎样|如何|几月|几号|几点|哪一?天|什么时候|啥时候|何时|怎么|多少|多久|是不是"
    r"|有没有|要不要|能不能|会不会|来着|好不好"
    r"|行不行|星期几|周几|谁(?![也都])",
    r"(?:(?:\A\W*|[.!?]\s+|\b(?:so|and|but|hey|hi|ok|well) )when(?! to\b)|"
    r"(?<!['’]s )(?<!that is )\bwhat(?! to\b)|\bwhich(?! (?:is|was|means|gives|leaves))"
    r"|(?<!guess )\bwho['’]s|\bwhy|\bwhere)\b",
    r"\A\W*(?:(?:so|and|but|hey|hi|ok(?:ay)?|well|wait|um+|hmm+)\W+)*(?:is|are|am|was|were|do|does|did|can|could"
    r"|should|shall|will"
    r"|would|has|have|had|isn['’]t|aren['’]t|don['’]t|didn['’]t|won['’]t|how) (?:i|you|he|she|it|we|they|there|the"
    r"|my|our|your"
    r"|his|her|their|this|that|these|any\w*|some\w*|(?-i:[A-Z]\w+))\b(?! (?:me|us)\b)",
    r"\b(?:know|remember|tell me|wonder(?:ing)?|ask(?:ing)?|check|sure|forgot|find out) (?:if|whether|when|what|how"
    r"|where)\b",
)
WORK = _any(
    r"\A\W*(?:(?:please|pls|hey|hi|ok(?:ay)?|so|can you|could you|would you|will you|help me(?: to)?),? )*"
    r"(?:translate|proofread|rewrite|reword|rephrase|polish|edit|check|correct|review|shorten|improve|format|summari[sz]e"
    r"|write|draft|look (?:over|at)|go (?:over|through)|help)\b",
    r"\A\W*(?:请|麻烦|帮我|帮忙|给我|替我|你|能不能|能|可以)*(?:[把将][^，。：:]{1,16}?)?(?:翻[译成一]|译成|改[成写一]|修改|润色|校对|检查|看[看一]|排版|精简|缩写|写|做|总结)",
)
"""A request for work on a text."""
OWN_DEADLINE = _any(
    r"\b(?:i|we)(?:['’](?:ve|m|re|ll))?(?: \w+)? (?:have|has|need|must|got|am|are|gotta|handing|submitting"
    r"|presenting)\b"
    r"[^,.;]{0,20}?\b(?:hand|submit|send|turn (?:it|them|this) in|deliver|present|upload|file|post|apply|due"
    r"|need(?= it| this)"
    r"|handing|submitting|presenting|read it)\b|\b(?:i|we) (?:need|want) (?:it|this|them) (?:by|before|on|for)\b",
    r"\b(?:it|they|which)(?:['’]s|['’]re| is| are) due\b|(?:\A|[,;]\s*)(?:the |my |our )?deadline(?: is|['’]s)?\b"
    r"|(?:\A|[,;]\s*)due (?:on|by|next|this|in)\b",
    r"(?<![他她您你])(?:我|咱们?)[^，。；他她]{0,12}(?:要|得|必须|需要)[^，。；他她]{0,4}(?:交|递|投|发|寄|用|讲|汇报)(?![通给朋])"
    r"|截止|(?:\A|[，,])[^，。；他她]{0,10}(?:要交|得交|要用|得用|之前交|前交)",
)
"""What was asked for is due on a day: "I have to hand it in next Friday", 我下周五要交."""
RHETORICAL = _any(
    r"\bwhat an?\b|[呢么][。！，,]?\s*\Z",
    r"\b(?:is|are|was|does|do|wo|has|have)n['’]?t (?:it|they|we|i|he|she)\W*\Z"
    r"|\b(?:right|correct|yes|no)\W*\?|[对是没][吧吗错][吧吗]?\W*\Z",
    r"\b(?:what|which|how)(?: \w+)? (?:is|does|do) (?:that|this|it)\b"
    r"|\b(?:is|does|was) (?:that|this) (?:a|an|the|fire|mean|run)\b|(?:这|那)(?:个|是|词|算|天)|为什么|为啥",
)
"""Asks nothing, or asks about the day itself: "what a week, and it's only Wednesday"."""
STILL = re.compile(r"还(?:没|要|得|有)[^，。？?]{0,10}呢")
"""Asks nothing: 我还没收呢."""
REQUEST = _any(
    r"\b(?:can|could|would|will) you (?:please |pls |kindly |also )?(?:remind|set|ping|nudge)\b"
    r"|\bwhy don['’]t you remind\b"
    r"|\bmind reminding\b|\b(?:like|want|need) you to (?:remind|ping|nudge)\b"
    r"|\bi(?:['’]d| would) like (?:an? (?:\w+ )?reminder|to be reminded)\b|\bwould you\W*\Z|(?:能"
    r"|可以|能不能|可不可以|麻烦).{0,12}提醒"
)
"""A question that is none."""

_IRREGULAR = _words(
    r"gave(?!\s(?:me|us)\s(?:until|till)\b) went came saw ate took made met held spent threw bought brought told"
    " thought found left lost"
    " paid sent won wrote felt forgot kept knew ran sat slept spoke stood taught wore began became broke built"
    " chose drove fell flew woke grew drank swam sang hid dug fought caught froze shook stole tore threw drew"
    " rode rose struck swore swept wept bent bit blew crept dealt dreamt fed fled hung laid learnt lent lit"
    " sank sold sought stung understood quit"
    # What was promised or meant is still to come.
    r" said(?!\s(?:that\s)?(?:i|we)(?:['’](?:d|ll)|\swould|\swill)\b) meant(?!\sto\b)"
)
_NO_PAST = _words(
    "need indeed feed speed seed scheduled planned booked supposed required expected invited wed red med bed shed weed"
    " hundred agreed reserved arranged rescheduled registered enrolled confirmed promised signed"
    " embed exceed proceed succeed freed newlywed fixed deadlined limited united unlimited"
    " overdue married naked sacred related deed"
)
"""Words in -ed that are no past, and what was arranged then for later."""
PAST = _any(
    r"\b(?:signed|filed|stamped|paid) on (?:the )?\x1f",
    r"\x1f[^，。,；]{0,2}出?生的|\b(?:was|were|had|did|didn['’]?t|wasn['’]?t|weren['’]?t|hadn['’]?t|ago|yesterday"
    r"|back in (?:\d{4}|the (?:day|\d)|my|high|college|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\w*"
    r"|used to|already)\b"
    r"|\blast (?:week|weekend|month|year|night|time|summer|winter|spring|autumn|fall|christmas|(?:mon|tues|wednes"
    r"|thurs|fri|satur"
    r"|sun)day)\b(?! (?:of|in)\b)",
    rf"\b(?=[a-z]{{2,}}ed\b(?!-))(?!(?:{_NO_PAST})\b)"
    rf"(?![a-z]+[^,;{DAY}]{{0,40}}\b(?:to|until|till|for|by)\s+(?:the\s+)?{DAY})"
    r"(?<!\bbe )(?<!\bbeen )(?<!\bis )(?<!\bare )(?<!['’]s )(?<!['’]re )(?<!\bgets )(?<!\bget )(?<!\bgetting )"
    r"(?<!\bbeing )(?<!\bhave )(?<!\bhas )(?<!['’]ve )(?<!\bto be )(?<!\bgotta )[a-z]+ed\b",
    rf"(?<![’\']ve )(?<!\bhave )(?<!\bhas )(?<!\bbe )(?<!\bbeen )(?<!\bis )(?<!\bare )(?<!\bget )"
    rf"(?<!\bgets )(?<!\bgetting )\b(?:{_IRREGULAR})\b(?!['’]t)",
    r"(?<![’']ve )(?<!\bhave )(?<!\bhas )(?<![’']s )\bgot (?!(?:till|until|to|tickets"
    r"|\d+)\b)(?!\w+ed\b)(?!(?:\w+ ){1,4}(?:appointment"
    r"|appt|meeting|exam|test|interview|flight|call|class|lesson|party|wedding|concert|gig|dinner|lunch|tickets"
    r"|deadline|session|slot|shift"
    r"|dentist|doctor|check-?up|scan|trip|visit|date|demo|booking|reservation|surgery|viewing|match|game|race"
    r"|recital)s?\b)\w+",
    r"昨[天晚日]|前天|上(?:个)?(?:周|月|星期|礼拜)|去年|前年|(?<!\x1f)以前|(?<!\x1f)之前(?:有|就|已|还|那)"
    r"|当时|那天(?!.{0,8}[要得])|那年|曾|[见去来吃看做谈说聊]过"
    r"|(?<!别)(?<!不)(?<!要)(?<!会)(?<!再)过了|刚刚|刚才|已经(?!约|订|定|买|报|排|预|安排|挂)|已[于在]|(?:不"
    r"|很|挺|真|太|还)好[看吃玩听喝]|(?<!一)早就|一早就(?![要得去])|那会儿|当初|上[次回](?!的)"
    r"|之前[^，。,]{1,6}的|顺利|结束了|很成功|拿到|[考做开办]完了(?!就)|没赶上|迟到了|是(?:在|跟|和|从|坐"
    r"|去)[^，。,]{1,12}的(?=[，。,！\s]|\Z)",
    r"(?:开|吃|玩|累|忙|听|看|写|跑|睡|笑|吓|气|冻|热)得(?!去|及)|(?:年轻|小)的?时候|上(?:小学|初中|高中|大学)(?:的)?时"
    r"|\b(?:i|we|he|she|they|it|you) (?:read|hit|cut|hurt|beat)\b"
    r"|\bbeat (?:them|us|him|her|it|you|the|(?-i:[A-Z])\w+)\b|\bhit (?:[$€£₹]\s?)?\d",
    r"\x1f(?:已经|都|给|就)?(?<!就)(?:送到|送来|送达|到货|修好|装好|上门|来)了(?=[，。,！!\s]|\Z)",
    r"\bwent (?:fine|well|great|ok(?:ay)?|badly|smoothly)\b|\x1f\s+is (?:fine|well|great|over|done|behind)\b"
    r"|\x1f[^，。,；\x1f]{0,3}?(?:开|买|寄|发|收|写|拍|签|订|下|发布|出|踢|办|卖|做|建)的(?=[，。,！\s]|\Z)|\x1f(?:冲到|涨到|跌到|跌破|突破)",
)
HAN_DONE = re.compile(
    r"(?<!忘)(?<!错过)(?<!迟到)(?<!不)(?<![定在约到成改排]\x1f)(?<![约订定排买改推挪报])(?<![约订定排买推挪]好)(?<![约报]上)(?<!报名)(?<!预约)(?<!预定)(?<!预订)(?<!提前)(?<!延期)"
    r"(?<!推迟)(?<!安排)了(?!解)"
)
"""What is done, but for what was booked for later; 别忘了 is no past."""
HAN_SOON = re.compile(
    r"轮到[^，,。；;]{0,14}了|(?:[要快该将]|得(?![到知出了]))(?:[^，,。；;]{0,14})了|就(?:[^，,。；;]{1,8})了|(?:前|底|要|得|快"
    r"|[必务][须必])[^，,。；;]{0,10}把[^，,。；;]{1,16}了|了[得要该]|(?:记得|务必|必须|别|不要|不能"
    r")[^，,。；;]{0,16}了"
)
"""了 of what is about to be so: 要考试了, 快到期了, 明天就走了; or what is to be done: 把报销单交了."""

_FEAST = (
    r"(?:birthday|b['’-]?day|birth ?day|bday|anniversary|anniv|(?:silver|golden|ruby|pearl|diamond) wedding)"
    r"(?: (?:with|of) \w+)?"
)
_HAN_FEAST = "(?:生日|生辰|寿辰|诞辰|纪念日|忌日|周年|大寿|金婚|银婚|钻石婚)"
_AGE = (
    r"(?:\d{1,3}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w{3,4}teen|eighteen|twenty|thirty"
    r"|forty|fifty|sixty|seventy|eighty|ninety|\w{3,5}ty-\w{3,5}|a hundred)"
)
_PERSON = (
    r"(?:he|she|they|i|we|who|(?:the|my|our|his|her) (?:twins|girls?|boys?|kids?|little one|baby|bab(?:y|ies)|oldest"
    r"|eldest|youngest|old man|old lady|wife|husband|partner|son|daughter|sister|brother|mum|mom|mother|dad|father"
    r"|lad|lass|gran|granny|nan|nana|aunt|auntie|uncle|niece|nephew|cousin|dog|cat|best friend)"
    r"|(?:my|our) (?-i:[A-Z]\w+)|(?:mum|mom|mam|mummy|ma|dad|daddy|papa|pops|gran|granny|gramps|nan|nana|nonna|oma"
    r"|opa|nani|dadi|amma|sis|bro|grandad|grandpa|grandma|auntie?|hubby)"
    r"|(?!(?:Dinner|Lunch|Breakfast|Meeting|Kick-?off|Start|Doors|Check-?in|Pick-?up|Class|It|That|This|There|Call|Lesson"
    r"|Training|Practice|Appointment|Slot|Deadline|Price|Total|Rent|Tickets?|Score|Today|Tomorrow)\b)(?-i:[A-Z][a-z]+))"
)
YEARLY_BEFORE = _any(
    rf"{_FEAST}(?:\s+(?:is|falls|comes|was)(?:\s+up)?(?:\s+(?:always|coming up))?(?:\s+on)?|['’]s(?:\s+on)?"
    rf"|\s*[:=–-]|\s+on|\s*(?:就?是|在|为)"
    r"|\s*,|\s*\(|\s+)?\s*(?:the\s+)?\Z",
    r"\b(?:dob|d\.o\.b\.?|date of birth)\s*(?:is|:|=)?\s*\Z",
    rf"{_HAN_FEAST}(?:是|在|为|就是|：|:|，|,|\s|（|\()*(?:阳历|公历|新历)?(?:每年的?)?\s*\Z",
    r"(?:出生日期|生于|出生于)(?:是|为|：|:|\s)*\Z",
)
"""Before a day: it is a birthday or an anniversary."""
PLAINLY = _any(
    r"(?:\bis|falls|comes|['’]s|是|[:=：])\s*(?:up\s*)?(?:on\s*)?(?:the\s*)?(?:每年的?)?\s*\Z|生于\s*\Z|(?:day"
    r"|anniv)\s*\Z"
)
"""Before a day: a reminder, whatever the rest of the sentence."""
YEARLY_AFTER = re.compile(
    r"\A(?:st|nd|rd|th)?\s*(?:=|,|is|it's|it is|marks|:|-|–)?\s*(?:it's\s+|it is\s+)?"
    r"(?:our|my|his|her|their|the|[\w.]+['’]s|(?<==)|(?<== ))"
    rf"(?:\s+\w+(?:['’]s)?){{0,3}}\s+{_FEAST}\b(?!\s+(?:party|dinner|lunch|cake|drinks|bash|trip|gift|present|do))",
    re.IGNORECASE,
)
HAN_YEARLY_AFTER = re.compile(
    rf"\A\s*(?:(?:就?是|为)[^，。,；]{{0,14}}{_HAN_FEAST}|[^的，。,；]{{0,8}}{_HAN_FEAST}(?=[\s，。！,!~～]|别|记|\Z)"
    r"|的生日|[^的，。,；]{0,6}过生日?(?=[\s，。！,!]|\Z))(?!聚会|派对|礼物|蛋糕|会)"
)
TURNS = _any(
    r"\b(?:turns?|turning|is turning|will turn|will be|is gonna be) (?:\d{1,3}|\w+ty|\w+ty-\w+|\w+teen|twenty|thirty"
    r"|one|two"
    r"|three|four|five|six|seven|eight|nine|ten|eleven|twelve)(?: years old)?,? (?:on |this |next )?(?:the )?\Z",
    r"['’]s \d{1,3}(?:th|st|nd|rd)?(?: (?:birthday|b-?day))?,? (?:is |falls |comes )?(?:on |this |next )?(?:the )?\Z",
    rf"\b{_PERSON}(?:['’](?:s|re|m)| is| are| am|['’]ll be) {_AGE}(?: years old)?,? (?:on |this |next )?(?:the )?\Z",
    rf"\b(?:makes|becomes|completes|is|are|be) {_AGE} years?(?: old)?,? (?:on )?(?:the )?\Z",
    rf"\b(?:{_PERSON}|(?-i:[A-Z]\w+)) (?:hits?|reach(?:es)?|becomes?|clocks?) {_AGE},? (?:on )?(?:the )?\Z",
    rf"\b{_AGE} years (?:married|together|sober|clean),? (?:on )?(?:the )?\Z",
    r"(?:满|过|就|要)\s*[\d一二三四五六七八九十百]+\s*(?:周?岁)(?:生日)?(?:是|在)?\s*\Z",
)
"""Before a day: someone's age changes on it."""
HAN_TURNS = re.compile(
    r"\A[^，。,；的]{0,6}(?:满|过)\s*[\d一二三四五六七八九十百]+\s*(?:周?岁|大寿)"
    r"|\A[^，。,；的]{0,4}?(?:就|该|要)?\s*[\d一二三四五六七八九十百]{1,3}\s*周?岁(?:啦|了)?(?=[\s，。,！!]|\Z)"
)
BORN = re.compile(
    r"(?P<who>(?:\A|[,;:.]\s*|\band\s+|\bbut\s+)?[^,;:.]{0,40}?)\b(?:was|were|am|is|got"
    r"|['’]s)?\s*born\s*(?:in [A-Z]\w+ )?"
    r"(?:,|:|on|the|in)*\s*(?:the\s*)?\Z",
    re.IGNORECASE,
)
WED = re.compile(
    r"(?P<who>[^,;:.]{0,40}?)\b(?:got|were|was|been|are|is|have been|got hitched|tied the knot|eloped|wed|wedded"
    r"|married|hitched)"
    r"(?: (?:married|hitched|wed))?(?: (?:in|at) (?!\d)[\w ]{2,20})?(?: on| since)?\s*(?:the\s*)?\Z",
    re.IGNORECASE,
)
WED_WORD = re.compile(r"married|hitched|the knot|eloped|\bwed", re.IGNORECASE)
FOREIGN = re.compile(
    r"\b(?:the|an?|this|that|some|which|who|queen|king|president|emperor|pope|saint|prince|princess|actor|singer"
    r"|poet|author)"
    r"\s+(?!baby|twins?|kids?|children|boys?|girls?|dog|cat|puppy|kitten|little one|user|other|eldest|youngest"
    r"|oldest)\w+"
    r"|\b(?:neighbou?r|colleague|co-?worker|boss|customer|client|landlord)s?['’]s?\b|\bex(?:-\w+)?\b"
    r"|(?<!\bfriend )(?<!\buncle )(?<!\baunt )(?<!\bcousin )(?<!\bbrother )(?<!\bsister )(?<!\bson )(?<!\bdaughter )"
    r"(?-i:\b[A-Z][a-z]+ (?:[A-Z]\.? )?[A-Z][a-z]+)(?!['’]s)",
    re.IGNORECASE,
)
"""Not one of the user's people: "the hero", or a person with a family name."""
HAN_BORN_AFTER = re.compile(r"\A\s*(?:那天)?(?:出生|生的|生(?=[，。,！\s]|\Z)|生人|诞生|落地)")
HAN_BIRTH_OF = re.compile(
    r"(?:爸爸?|妈妈?|爹|娘|爷爷?|奶奶?|外公|外婆|姥姥|姥爷|哥哥?|姐姐?|弟弟?|妹妹?|儿子|女儿|孩子|宝宝|老婆"
    r"|老公|媳妇|先生|太太|妻子|丈夫|闺女|我|他|她|闺蜜|娃|男友|女友"
    r"|对象)是?\s*\Z"
)
HAN_OF_YEAR = re.compile(r"\A\s*的(?:人)?(?=[，。,！\s]|\Z|属)")
"""爸爸1958年8月2号的: born then."""
HAN_WED_AFTER = re.compile(
    r"\A\s*(?:那天)?(?:在\w{1,6})?(?P<how>结的婚|领的证|登的记|结婚的|领证的|登记的|成的家|结婚了|领证了"
    r"|结了婚|领了证|登记结婚|结婚|领证|在一起的)"
)
HAN_FOREIGN = re.compile(r"前(?:男友|女友|夫|妻|任)|同事|邻居|明星|网友|客户")
PAST_YEAR = re.compile(r"(?:1\d{3}|20[01]\d)年(?![级款])|\b(?:in|since|of) (?:1\d{3}|20[01]\d)\b")
"""A year long past in the clause of a day without a year."""
HAN_WED_BEFORE = re.compile(r"(?:结婚|领证|登记)(?:于|是在|那天是|日期[是：:]?)\s*\Z")
EVERY_YEAR = _any(r"\b(?:every|each) year\b|\b(?:yearly|annually)\b|每年|(?<![今明来后前去])年年")
PLANNED = _any(
    r"\b(?:am|are|is|['’]?m|['’]re|['’]s|will be) (?:going |coming )?"
    r"(?:\w+ing|off to|away|on call|due|(?:meant|supposed) to)\b"
    r"|\b(?:need|needs|must|have to|has to|gotta|got to|will|gonna|going to|booked|reserved|planned"
    r"|arranged|scheduled)\b"
    r"|['’]ll\b|\b(?:have|has|['’]ve|['’]s) (?:got )?(?:an?|the|my|our|two|three|\w+ (?:over|round|staying|coming))\b"
    r"|\bwe['’]?re having\b|\bfor this weekend\b",
    r"我(?:请|演|值班|下厨|做东)|轮到我|答应|要(?![是不])|(?<=[我们咱还也都末夕节])得|得(?=[去回把给])|打算|准备|计划|约了|约好|[订定]了|[订定]好|说好|记得|提醒",
)
"""Said of a weekend or a holiday: something is to happen on it."""
PLANNED_NEXT = re.compile(
    rf"(?:[这本下]个?周末|(?:除夕|三十|春节|元宵节|端午|中秋|重阳|清明|冬至|圣诞|平安夜|元旦|情人节|五一|国庆|劳动节)节?(?:那天|当天|晚上)?)"
    rf"(?:我们|咱们?|我|全家|一家人|跟[{HAN}]{{1,4}}|和[{HAN}]{{1,4}})?(?:去|回|到|飞|搬|来)(?!哪|年)"
)
"""A weekend or a holiday on which someone travels."""
HABIT = _any(
    r"\b(?:usually|always|normally|generally|typically|often|traditionally|tend to|every)\b",
    r"一般|通常|总是|往往|经常|习惯|都(?:会|要|是|在|去|回|有)|传统|风俗|习俗|每(?:年|逢|到)|大家|人们|古人|北方人?|南方人?",
)
"""Said of a weekend or a holiday: it is the custom."""
EVERY = _any(r"\b(?:every|each)\s+\Z")
"""Before a day: it is that of every year."""

ASKED = _any(
    r"(?P<remind>(?<![a-z])remind (?:me|us)\b)|\b(?:ping|nudge|poke) (?:me|us)\b"
    r"|(?:\A|[,.;:!]\s*|\b(?:please|pls|and) )(?:nag|pester|chase|bug) (?:me|us)\b"
    r"|\bgive (?:me|us) a (?:nudge|shout"
    r"|heads[- ]up)\b",
    r"(?:\A|[,.;:!]\s*|\b(?:please|pls) )tell (?:me|us) to\b",
    r"\bset (?:up )?(?:a|an) (?:reminder|alarm)\b|(?:\A|[.!;]\s*)reminder\b",
    r"(?:\A|[,.;:!]\s*|\b(?:please|pls|plz|and|so|must) )(?:please )?(?:remember to|(?:don['’]?t|do not|dont"
    r"|can['’]?t|mustn['’]?t)"
    r" (?:let me |let us )?(?:forget|miss))\b",
    r"(?P<han_remind>叫我(?=[今明起下上去抢关开拿收回打接出追]|[\s，。,！!~啊哈]|\Z)|提醒(?:一下)?(?:我|咱|大家)|(?<=[，,。！\s])提醒|\A提醒|叫我一声|喊我)",
    r"(?P<han_remember>(?:千万)?(?:记得|(?:别|不要)(?:让我)?(?:忘了?记?|错过)))",
)
ASKED_AHEAD = _any(
    r"(?:\A\W*|\b(?:please|pls|plz|so|and|then|just|(?:can|could|would) you) )(?:just )?"
    r"(?:let me know|(?:tell|alert|warn|notify|prompt|buzz|text|message|wake) me)\b",
    r"\b(?:i(?:['’]d| would)? (?:like|want|need|love)|add|put|make|give me|with|plus) (?:in )?an? (?:\w+ )?"
    r"(?:reminder|alert|warning|notice)\b|\b(?:want|need|like|love) to be (?:reminded|told|warned)\b"
    r"|\b(?:i|we)(?:['’]ve)? (?:\w+ )?(?:must|have to|need to|gotta|got to) (?:\w+ )?(?:apply|book|register|send|submit"
    r"|renew|order|cancel|hand|pay|file|buy|confirm|request|sign up|give notice)\b",
    r"(?:\A|[，,]|请|麻烦|帮我|记得|到时候?|就)[^，。,；会]{0,10}(?:告诉|通知|跟我说|和我说|给我提个醒|提个醒|给我说|喊|吱一?声|说一声)",
    r"(?<![他她])(?:要|得|必须|需要|务必|最好)(?=提[前早][^，。,；]{1,6}[去把]?(?:[办续交报订买换递]|申请|预约|提交|通知))",
)
"""Beside a distance from a day: it is asked for, or a duty, at that distance."""
OTHERS_AHEAD = _any(
    r"\b(?:he|she|they|it|who|will|would|always|usually|normally)(?:['’]ll)? \Z",
    r"[他她它们谁妈爸师板姐哥校司行](?:又|会|就|要|来|常|总是?|都|一般)?\s*\Z|(?<![开聚宴晚年例班议机舞展])会\s*\Z",
)
"""Before a request beside a distance: another person makes it."""
OPENS_OWN = re.compile(
    r"\b(?:assignment|essay|coursework|homework|abstracts?|submissions?|applications?|registration|enrol?lment|ballot|poll"
    r"|tender|portal|survey|intake|call for \w+)\b[^,.;:]{0,30}?\b(?:opens?|closes?)\b|"
    r"(?:\b(?:sister|brother|mum|mom|dad|mother|father|wife|husband|partner|friend|cousin|son|daughter|niece|nephew)"
    r"(?: (?-i:[A-Z])\w+)?|\b(?:i|we)) (?:opens?|(?:is|are|am) opening)(?= (?:an?|her|his|my|our|their)\b)",
    re.IGNORECASE,
)
"""The opening of something by one of the user's people, or of what is handed in: no opening hour."""
DONE_FOR = re.compile(
    r"\b(?:need|needs|want|wants|get|must have|gotta have)\s+"
    r"(?:the|my|our|this|that|these|those|his|her|their|an?|all|it|them)"
    rf"\b[^,.;{DAY}]{{0,40}}?\b[a-z]+ed\b",
    re.IGNORECASE,
)
"""What is to be done: "I need the slides finished" is no past."""
CORRECTED = re.compile(
    r"[哦噢啊额]?不(?:对|是)?\s*[，,]|说错|记错|搞错|\b(?:no,? wait|wait,? no|i mean|scratch that|make that)\b",
    re.IGNORECASE,
)
"""Between two days: the second is meant."""
FROM_NOW = re.compile(
    r"\b(?:in (?:about |like )?)?(?P<en>\d{1,3}|half an|an?|one|two|three|four|five|six|ten|fifteen|twenty|thirty|forty"
    r"|forty[- ]five) (?P<unit>min(?:ute)?s?|h(?:ou)?rs?)(?P<now> from now)?\b"
    r"|(?P<过>再?过)?(?P<zh>半|[0-9]{1,3}|[一二两三四五六七八九十]{1,3})(?:个(?P<又半>半)?)?(?P<单位>小时|钟头|分钟|刻钟)"
    r"(?P<半>半)?(?(过)(?:[之以]?后)?|[之以]?后)",
    re.IGNORECASE,
)
"""A moment of the next hours."""
SINCE_DAY = re.compile(
    r"\b(?:from|starting|beginning|commencing|as of|effective)\s+(?:from |on )?(?:the )?\Z"
    r"|(?:首[次课]|第一[次节堂回]课?)[是在：:]?\s*\Z",
    re.IGNORECASE,
)
"""Before a day: a rhythm begins on it."""
HAN_SINCE_DAY = re.compile(r"\s*(?:那天)?起(?![床飞身])")
HAN_FROM_DAY = re.compile(r"(?:自|从|打)\s*\Z")
HAN_BEGINNING = re.compile(r"\s*开始")
"""After a day that "from" precedes, or right before the rhythm: likewise."""
BEGINS_ON_DAY = re.compile(
    r"\b(?:(?:re)?starts?|begins?|the first(?: (?:one|class|lesson|session))?(?: is)?)\s+(?:on )?(?:the )?\Z",
    re.IGNORECASE,
)
"""Before a day that is named right before the rhythm: likewise."""
_UNDONE = (
    r"(?:ha(?:ve|s)(?:n['’]?t| not)\b|(?:is|are)(?:n['’]?t| not)\b(?=[^,;()]*\b(?:yet|ready|here|done|finished)\b)"
    r"|not\b(?=[^,;()]*\byet\b)"
    r"|(?:not|don['’]?t|do not) (?:(?:feel(?:ing)?|really|quite|at all|very|that|so|too) )*(?:ready|prepared|excited"
    r"|keen|happy|thrilled|looking forward|confident|great|good))"
)
ASIDE = re.compile(
    rf"[(（](?=[^()（）]*{_UNDONE})[^()（）]*[)）]|[(（][^()（）]{{0,12}}(?:没|尚?未)[^()（）]{{1,12}}[)）]"
    rf"|(?:(?<=[,;])\s*|\s[–—-]\s)(?:(?:but|and|though|still|honestly|i|we|i['’]m|we['’]re|am|are) )*{_UNDONE}[^,;.!?]*"
    r"|(?<=[,;])\s*(?:(?:i|we)(?:['’]m|['’]re| am| are) )?thinking (?:of|about) [a-z]+ing\b[^,;.!?]*",
    re.IGNORECASE,
)
"""What is not done yet, felt or thought about beside a day: "(kitchen not delivered yet)", "not feeling ready"."""
NO_ASIDE = _any(
    r"\d|\b(?:happening|happen|go|going|coming|taking|cancel\w*|call\w*|off|mov(?:e|ed|ing)|postpon\w*|reschedul\w*"
    r"|chang\w*|switch\w*|pull\w*|skip\w*|sure|certain|if|whether|when|date|day|it|told|heard|invited"
    r"|remind\w*|any ?more|today|tomorrow|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|week|month)\b",
    r"\A[(（,;–—\s-]*(?:(?:but|i|we|they|still|not|yet|been|has|have|is|\w+n['’]?t) +)*"
    r"(?:booked|confirm\w*|agreed|decided|fixed|official|final|definite|set|scheduled|made)\b",
    r"取消|推|改|延|[挪调退]|不|没(?:戏|空|了|人|约|订|报|有)|时间|日[子期]|哪天|几[号点]|\A[(（](?:还|尚)?[没未](?:最终|完全)?[确定]",
)
"""In an aside: the event may not take place, or be on another day."""
THAT_DAY = re.compile(r"\A节?[那当]天")
"""After a holiday: 圣诞节那天."""
NEW_DAY = re.compile(
    r"\bso (?:that|it)(?:['’]s| is) (?:now )?(?:the|our|my) (?:(?:new|actual|real) )?"
    r"(?:date|deadline|finish line|day|target|due date)\b",
    re.IGNORECASE,
)
"""After "they won't … before 31 July": that day is the one that counts."""
WONT_BEFORE = re.compile(
    r"\b(?:won['’]t|can['’]t|cannot|will not|not)\b(?=[^,.;\x1f]{0,60}\b(?:before|until|till)\s+\x1f)", re.IGNORECASE
)
THEREFORE = re.compile(r"(?:\bso|所以)\s*\Z", re.IGNORECASE)
CALLED_OFF_AFTER = re.compile(
    r"\A[\s，,、;；-]*后来|\A[\s，,、;；-]*(?:又|都|也|就|已经|给|现在)?(?:取消|黄|泡汤|作废|没戏|吹|不(?:去|办|开|搞|考|约|做))了"
    r"|\A[\s,;–—-]*(?:(?:it|that|which)(?:['’]s| is| was| has been| got)|is|was|has been|got|now)?\s*"
    r"(?:cancell?ed|called off|scrapped|off)\b(?! (?:to|work|on|from)\b)",
    re.IGNORECASE,
)
"""The clause after that of a day: its event does not take place, or the sentence is a narrative."""
OTHERS_REMIND = _any(
    r"(?:\b(?:he|she|they|it|who|we|will|would|did|does|do|should|must|shall|always)|(?<!you )\bto|['’]ll)\s+\Z"
)
HAN_OTHERS = re.compile(r"[他她它们谁妈爸师板姐哥](?:又|会|就|要|来|常|总是?)?\s*\Z|我(?:还|都|只|就)?\Z")
"""Before the request: another person reminds, or remembers."""

STRONG = _any(
    r"\b(?:deadline|appointment|appt|exam|interview|flight|check-?up|surgery|expir(?:es|y|ation)|expire|scan|demo"
    r"|meeting"
    r"|presentation|dentist|physio|vet|mot|visa|lecture|rehearsal|recital|viewing|delivery|wedding|funeral|concert"
    r"|gig)\b",
    r"\bdue\b|截止|到期|预约|约了|考试|面试|航班|体检|手术|复诊|复查|答辩|DDL|ddl|开会|会议|交房租|家长会"
    r"|演唱会|婚礼|看牙|拔牙|打疫苗|年检",
)
"""A deadline, an appointment."""
VISIT = _any(
    rf"\b{_TRADE}(?: (?:from|for|to|about) (?:[\w-]+ ){{1,4}}?)?(?:['’]s (?:coming|due|booked|here|round)"
    rf"|(?: ?{_COMES})|(?: [\w-]+){{1,2}} {_COMES})\b",
    rf"\b{_TRADE},? (?:booked|scheduled|due|coming)\b|\A\W*(?:the |our |my |(?-i:[A-Z])\w+ )?{_TRADE}[,:]? (?:on "
    rf"|this |next |tomorrow\b|the \d|(?:mon|tue|wed|thu|fri|sat|sun))",
    rf"\b(?:have|has|['’]ve|having|got|getting|booked|expecting|arranged) (?:got )?(?:an?|the|our|my|two"
    rf"|some) (?:[\w-]+ ){{0,2}}?"
    rf"(?:{_TRADE}|m[ae]n|guy|guys|bloke|someone|somebody)\b(?: (?:from|about|to|for) [^,.;]{{1,40}})? ?(?:coming"
    rf"|booked|due|in|round|over|here|visiting)\b",
    r"\b(?:someone|somebody|an? (?:man|guy|bloke|lady|woman|person)|people"
    r"|two men) from (?:the )?[^,.;]{2,30}? (?:is|are|will be) coming\b"
    r"|\b(?:someone|somebody|an? (?:man|guy|bloke|lady|woman|person|lad|firm)) (?:is|['’]s|will be) coming (?:round "
    r"|over |out )?(?:about|to (?:fix|look at|repair|service|mend|install|fit"
    r"|measure|clean|read|collect|pick up|check|inspect|unblock|paint|quote))\b",
    r"\b(?:my|our|the) (?:new )?(?:[\w-]+ ){1,2}(?:is|are|will be|gets?) (?:being |getting )?delivered\b",
    rf"{_HAN_TRADE}[^，。,；]{{0,12}}?{_HAN_COMES}",
    r"上门(?:来)?(?:安装|维修|检查|检修|清洗|取件|量|抄表|收|修|装|送|打扫|服务)|(?<![我咱他她你们])来(?:家里?"
    r"|我家)?(?:修|装(?!逼|饰)|安装|维修|检修|抄表|量尺寸|通下水|疏通|清洗|打扫|搬家|送货|收废品)"
    r"(?![^，。,；]{0,6}的(?:人|顾客|客户|那))"
    r"|(?:沙发|冰箱|洗衣机|空调|床|床垫|衣柜|家具|家电|电视|柜子|桌子|新车|货)[^，。,；]{0,8}(?:送到|送来|送货|到货"
    r"|上门)",
)
"""Tradespeople or a delivery that come to the user."""
DUE_BY = _any(
    r"\b(?:due|deadlines?|overdue|expir(?:es?|y|ation)|runs? out|renew(?:al|ed|s)?|invoices?|payable|hand(?:ed)? in"
    r"|(?:has|have|needs?|must|got) (?:to )?be (?:posted|paid|sent|filed|returned|submitted|filled in)|in the post)\b"
    r"|\b(?:by|until|before) (?:the )?(?:\d|(?:january|february|march|april|june|july|august|september|october"
    r"|november|december|may \d|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\b)",
    r"截止|到期|过期|扣费|扣款|续费|续保|续签|续期|缴费|还款|交费|还贷|年审|之?前(?:要|得|必须|记得)?(?:交|还|付|缴|提交|办|寄)",
)
"""What has to be done, or runs out, by a day, where an appointment takes place on it."""
ENDS_IN_MONTH = _any(
    r"\b(?:expir(?:es?|ing)|runs? out|due|overdue|up for renewal|renew(?:al|s)?|be renewed|deadline)\b",
    r"\b(?:lease|tenancy|contract|subscription|membership|licen[cs]e|warranty|guarantee|insurance|policy|visa|passport"
    r"|permit|trial|probation|notice|mortgage|fixed rate|internship|placement|deal|plan|certificate)\b[^,;.]{0,20}"
    r"\b(?:ends?|finish(?:es)?|is up|stops?|lapses?|comes to an end)\b",
    r"\b(?:must|have to|has to|need to|needs to|got to)\b[^,;.]{0,60}\b(?:by|before)\s+(?:the )?"
    r"(?:start of |beginning of |early )?\w+\W*\Z",
    r"到期|过期|截止|期满|续签|续费|续保|续期|年审|换证",
)
"""Ends, or has to be done, in a month that is named without a day."""
IN_NEXT_YEAR = re.compile(r"明年的?\s*\Z")
OF_NEXT_YEAR = re.compile(r"\s*(?:of )?next year\b", re.IGNORECASE)
IN_OTHER_YEAR = re.compile(r"(?:去|前|后|今|大前)年的?\s*\Z|\blast\s+\Z", re.IGNORECASE)
MUST = _any(
    r"\b(?:must|have to|has to|need to|needs to|gotta|got to|due|by|before|until|till)\b|要|得|必须|务必|需要|之前|前"
)
"""A duty, which is to be done even today."""
DUTY = _any(r"\b(?:must|have to|has to|need to|needs to|gotta|got to)\b|必须|务必|需要|得(?=[^，。]{0,6}[办交续换])")
CLOCK = _any(
    r"\b(?:half|quarter) (?:past |to )?"
    r"(?:\d{1,2}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b",
    r"\b\d{1,2}(?:[:.]\d\d)? ?[ap]\.?m\b|\b\d{1,2}:\d\d\b|\bat (?:\d{1,2}|noon|half|one|two|three"
    r"|four|five|six|seven|eight|nine|ten|eleven|twelve)\b|[点點](?!外卖|菜|单|击|赞|评)",
)
OF_ANOTHER = re.compile(
    r"\A\s*的(?:邮件|信|账单|报告|照片|记录|纪要|笔记|消息|文件|版本|日记|日志|新闻|数据|洪水|事|聊天|帖子"
    r"|文章|视频|录音|合影|通知|票据|发票|收据|报纸)"
    r"|\A['’]s (?:report|newsletter|issue|edition|minutes|numbers|figures|invoice|bill|e?mail|news|paper"
    r"|data|results|payslip"
    r"|statement)s?\b",
    re.IGNORECASE,
)
WEEKDAY_BEFORE = re.compile(
    r"\b(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?,?\s+(?=(?:the\s+)?\Z)", re.IGNORECASE
)
"""The weekday of a date, before it: "moved to Monday the 14th"."""
DATED = _any(
    r"\b(?:of|dated|since|after|as of|(?:email|mail|letter|notes|photo|photos|picture|report|invoice|version|post"
    r"|article|message"
    r"|minutes|bill|receipt) (?:from|on))\s+(?:the\s+)?\Z|(?:自从|自|从)\s*\Z(?<=自|从)"
)
"""3月5日的邮件, the mail of March 5: the day is that of something else."""
NOTES = _any(
    r"\b(?:notes|minutes|summary|recap|recording) (?:of|from|for|on)\b|会议纪要|会议记录"
    r"|纪要[:：]|记录[:：]|的(?:结果|总结|记录|纪要)"
)
JOINED = re.compile(r"\s*,?\s*(?:and|&|\+|plus|和|与|及|跟|以及|还有)\s*(?:on\s+)?(?:the\s*)?|\s*、\s*", re.IGNORECASE)
"""Between two days, and nothing else: both are meant."""
AND = re.compile(r"\b(?:and|then)\b|&|[和与及跟、]", re.IGNORECASE)
EVENT_JOINT = re.compile(
    r"\s*[,，;；、]\s*(?:(?:and|then|plus|also)\s+|还有|然后|以及|和)?|\s+(?:and|then|plus|&)\s+(?:then\s+|also\s+)?"
    r"|还有|然后|以及|[和跟]",
    re.IGNORECASE,
)
"""Between two events that have a day each."""
LEAD = re.compile(
    r"\A\W*(?:(?:please|pls|and|also|so|ok(?:ay)?)[, ]+)*(?:(?:can|could) you )?(?:remind me (?:about|of|that|to go to)"
    r"|don['’]?t (?:let me )?forget|(?:i|we)(?:['’]ve| have)(?: got)?|i['’]?m having|there(?:['’]s| is| are))\s+"
    r"|\A(?:请|麻烦)?(?:提醒我|别忘了|记得|我们?有?)",
    re.IGNORECASE,
)
"""Begins a sentence, and is said of all events in it."""
DAY_OF_MONTH = re.compile(r"\d{1,2}(?:st|nd|rd|th)|(?:\d{1,2}|[一二三四五六七八九十]{1,3})[号日]", re.IGNORECASE)
MONTH_NAME = re.compile(r"(?P<zh>(?:\d{1,2}|[一二三四五六七八九十]{1,3})月)|(?P<en>[a-z]{3,})", re.IGNORECASE)
OR = re.compile(
    r"\b(?:or|either|between|not|instead|rather|until|till|to(?= the\b| \d|\Z))\b|或|还是|之间|不是|而是", re.IGNORECASE
)
"""Between two days of a clause: one is in doubt, or they are the ends of a span."""
RANGE = re.compile(r"\A\s*(?:-|–|—|~|～|to|through|till|until|and|到|至)\s*(?:the\s*)?\Z", re.IGNORECASE)
"""Between two days: they are the ends of a span."""
BESIDE = re.compile(r"[\s,，、(（]*(?:the\s+|on\s+|also\s+|是|即|也就是)?(?:the\s+)?", re.IGNORECASE)
"""Between a weekday and the date of the same day."""
AWAY = _any(
    r"\b(?:trip|holidays?|vacation|camp(?:ing)?|conference|festival|retreat|fly(?:ing)?|travel\w*|visit\w*|staying|stays?"
    r"|away|leave|on call|covering|cruise|going to|in (?-i:[A-Z])\w+)\b",
    r"去|到(?=[^，。\d]{1,6}玩)|出差|旅游|旅行|休假|请假|年假|露营|夏令营|集训|培训|值班|军训|展会|回老家|住院",
)
"""What lasts for days, and is reminded of on the first."""
SPAN = _any(r"\b(?:from|between)\s+(?:the\s+)?\Z")
DELIMITER = re.compile(
    r"(?<!\d),|,(?!\d)|[;，；。!！、]|\.\s+|\s[–—-]\s|——|\.{2,}|…|\bbut\b"
    r"|\bso (?=i|we|please|remind|(?:the|my|our|his|her|their|he|she|they|it|that)\b|(?-i:[A-Z]))|\bbecause\b"
    r"|\bor (?=(?:i|we|they|he|she|it|you|else)\b)|但是?|所以|因为|不然|否则"
    rf"|(?<=[{HAN}])[ \u3000]+(?=[{HAN}])",
    re.IGNORECASE,
)
EXCLAIMED = re.compile(rf"[!！]+(?=[{HAN}\d])")
"""Ends a sentence of Chinese without white space: 6月13号考六级!!这次…"""
QUOTED = re.compile(
    r"\"[^\"]{2,120}\"|“[^”]{2,120}”|「[^」]{2,120}」|『[^』]{2,120}』|《[^》]{1,60}》"
    r"|(?<!\w)'[^']{8,120}'(?!\w)|`[^`]{2,120}`"
)
FILLER = re.compile(
    r"\b(?:on|by|at|the|is|it|it's|in|for|before|until|till|this|next|to|and|ok|btw|hey|hi|that|a|an|of|pm|am|yes"
    r"|really|first|one|around|ie|i\.e)\b|[\d\W_]+|也就是|就是|也|那天|是|在|的|就|算|吧|点|半|晚上|早上|上午"
    r"|下午|中午|今年|明年",
    re.IGNORECASE,
)
"""Words that say nothing of what a day is about."""

REMIND_OF = _any(
    r"\bremind (?:me|us) (?:of|what|who|how|why|where|when|which|whether)\b(?! (?:the|my|our|that|this|an?)\b)"
    r"|\bremind (?:me|us) (?:what|who|how|why|where|when|which|whether)\b|\breminds (?:me|us) of\b"
)
"""No reminder: what is to be said again, or what resembles something."""
MOVED_TO = re.compile(
    r"\b(?:moved|shifted|pushed|postponed|rescheduled|changed|switched|brought|put|bumped|delayed|slipped"
    r"|deferred)\b[^,;]{0,60}?"
    r"\b(?:to|until|till|for)\b|\bnow (?:on|it['’]s)?\b"
    r"|改(?:到|成|为|在|至|期到|期至|(?=[\d一二三四五六七八九十周下明后\x1f]))|推(?:迟)?到|提前到"
    r"|延(?:期|后)?到|挪到|换到|调(?:整)?到|顺延到",
    re.IGNORECASE,
)
"""Before the day to which something was moved."""
MOVED_TO_DAY = re.compile(rf"(?:{MOVED_TO.pattern})\s*(?:the\s+)?{DAY}", re.IGNORECASE)
TIMETABLE = _any(
    r"\b(?:they|people|everyone|train|bus|ferry|shop|store|museum|library|market|show|episode|newsletter|column"
    r"|cron ?job|scheduled (?:job|task)|script|backup"
    r"|pipeline)s?\b|\bcron\b"
    r"|(?:剧|番|节目|综艺|公众号|专栏|栏目)|定时任务|脚本|备份|流水线|更新|火车|班车|高铁|商店|博物馆|超市"
)
OWN = _any(r"\b(?:i|we|my|our|me|us)\b|我|咱|[要得]去")
HAN_CANCELLED = _any(r"\b(?:cancell?ed|called off)\b|取消了")

# Appointments that were moved or called off.

EVENTS: tuple[tuple[str, ...], ...] = (
    (
        "dentist",
        "dental",
        "tooth",
        "teeth",
        "root canal",
        "orthodontist",
        "hygienist",
        "braces",
        "brace",
        "口腔",
        "牙",
        "智齿",
        "根管",
    ),
    ("doctor", "gp", "physician", "看病", "医生", "看诊", "门诊"),
    ("dermatologist", "derm", "skin doctor", "皮肤科"),
    (
        "eye test",
        "eye exam",
        "optician",
        "ophthalmologist",
        "optometrist",
        "cataract",
        "eye",
        "白内障",
        "眼科",
        "验光",
        "看眼",
        "配镜",
    ),
    ("physio", "physiotherapy", "理疗", "康复", "推拿"),
    ("check-up", "checkup", "physical", "health screening", "体检"),
    ("follow-up", "复查", "复诊"),
    ("surgery", "operation", "手术"),
    ("scan", "mri", "ultrasound", "x-ray", "核磁", "b超", "彩超"),
    ("blood test", "blood work", "抽血", "验血"),
    ("vaccin", "shot", "jab", "疫苗", "打针"),
    ("therap", "counsel", "咨询师", "心理咨询"),
    ("vet", "兽医", "宠物医院"),
    (
        "exam",
        "exams",
        "考试",
        "科目一",
        "科目二",
        "科目三",
        "科目四",
        "期末",
        "期中",
        "六级",
        "四级",
        "雅思",
        "托福",
        "ielts",
        "toefl",
    ),
    ("六级", "cet-6"),
    ("四级", "cet-4"),
    ("雅思", "ielts"),
    ("托福", "toefl"),
    ("interview", "面试"),
    ("demo", "演示"),
    ("presentation", "slides", "汇报", "宣讲"),
    ("talk", "lecture", "演讲", "讲座", "公开课"),
    ("defen", "viva", "答辩"),
    ("meeting", "会议", "开会", "例会", "的会"),
    ("standup", "stand-up", "站会", "晨会"),
    ("review", "评审"),
    ("parents evening", "parent-teacher", "parents' evening", "家长会"),
    ("flight", "plane", "航班", "飞机", "机票"),
    ("train", "火车", "高铁", "动车", "硬座", "硬卧", "卧铺", "车票"),
    ("trip", "holiday", "vacation", "旅游", "旅行", "出游"),
    ("business trip", "出差"),
    ("wedding", "婚礼"),
    ("funeral", "葬礼", "追悼会"),
    ("party", "聚会", "派对", "轰趴"),
    ("dinner", "晚饭", "晚餐", "聚餐", "饭局", "吃饭"),
    ("lunch", "午饭", "午餐"),
    ("coffee", "咖啡"),
    ("concert", "gig", "演唱会", "音乐会", "抢到票", "看台"),
    ("play", "theatre", "theater", "话剧", "演出"),
    ("release", "launch", "go-live", "上线", "发布", "发版"),
    ("cutover", "migration", "迁移", "割接", "切换"),
    ("paper", "manuscript", "论文", "稿子", "线稿", "书稿", "初稿"),
    ("thesis", "dissertation", "毕业论文"),
    ("report", "报告", "总结"),
    ("class", "lesson", "course", "培训", "上课", "补课", "课"),
    ("haircut", "hairdresser", "barber", "理发", "剪头"),
    ("delivery", "送货", "快递", "配送"),
    ("visa", "签证", "面签"),
    ("move", "movers", "moving house", "搬家"),
    ("viewing", "看房"),
    ("inspection", "health department", "mot", "年检", "验车", "检查", "卫生局"),
    ("match", "game", "race", "marathon", "比赛", "球赛", "马拉松"),
    ("call", "电话会", "通话"),
    ("date", "约会"),
    ("picnic", "barbecue", "bbq", "野餐", "烧烤"),
    ("hike", "camping", "爬山", "徒步", "露营"),
    ("reunion", "同学会", "同学聚会"),
    ("application", "申请", "申请表", "张表"),
    ("plumber", "electrician", "cleaner", "handyman", "维修", "师傅", "修理"),
)
"""Words for the same sort of event, in both languages."""
CHANGE_CUES = (
    "moved", "shift", "push", "postpon", "reschedul", "delay", "bump", "slid", "slip", "defer", "put back", "forward",
    "chang", "switch", "instead", "swap", "new ", "now", "exten", "cancel", "called off", "fell thr", "scrap", " off",
    "happening", "going ahead", "taking place", "finish line", "same ",
    "refunded", "pulled out", "重", "再", "才", "退", "撕",
    "不申请", "不报", "不交", "改", "推", "提前", "延", "挪", "换", "调", "宽限", "取消",
    "作废", "黄了",
    "泡汤", "不办", "不开", "不去", "不搞", "不考", "不用去", "没戏", "不做", "不约",
)  # fmt: skip
"""A sentence without any moves nothing and calls nothing off."""
MOVED = re.compile(
    r"\b(?:moved|shifted|pushed|pushing|postponed|rescheduled|delayed|bumped|bumping|slides?|slipped|slips"
    r"|deferred|put back"
    r"|brought forward|changed|switched|instead|swapped)\b|\bnew (?:date|time|deadline|slot|appointment)\b"
    r"|\b(?:is|it['’]?s) now\b"
    r"|\bnow (?:on|in|it['’]?s)\b|(?:\b(?:is|are)|['’]s) on (?:mon|tues|wednes|thurs|fri|satur"
    r"|sun)days now\b(?! that)|\bextended\b|\bextension\b|\bnew finish line\b"
    r"|\bit['’]s (?:the )?(?:\d\w*|[a-z]+ \d\w*)(?: of)?(?: [a-z]+)? now\b"
    r"|\bwants? (?:me|us)\b[^,.;]{0,25} now\b"
    r"|\b(?:rang|phoned|called|texted|emailed|wrote)\b[^.;]{0,80}\bsame (?:\w+ )?(?:time|hour)\b"
    r"|重新?(?:安?排|约)|(?:叫|让)(?:我|咱|我们|咱们|孩子|娃)?[^，。,；]{0,8}[号日]再(?:过?[来去]|办)"
    r"|[号日]才能?(?:来|交|给|办)(?=[\s，。,！!]|\Z)|[号日]再(?:给|交)(?:就成|就行|也行|即可|不迟)"
    r"|改(?:到|成|为|在|至|期|签|约|天|(?=[\d一二三四五六七八九十周下明后]))|推(?:迟|后)?到"
    r"|推迟|提前(?:到|至)|延(?:期|后|迟)?(?:到|至)|延期|挪到|挪至|换到|调(?:整)?到|顺延|宽限",
    re.IGNORECASE,
)
CANCELLED = re.compile(
    r"\bcancell?ed\b|\bcalled off\b|\bfell through\b|\bscrapped\b|\bis off\b(?! (?:to|work|on))|\b(?:isn['’]t"
    r"|not|no longer|won['’]t be)"
    r" (?:happening|going ahead|taking place)\b|\bcancell?ing (?:the|my|our)\b"
    r"|\bI (?:had to )?cancel(?:led)? (?:the|my|our)\b"
    r"|取消了?|作废|黄了|泡汤|不办了|不开了|不去了|不搞了|不考了|不用去了|没戏了|不做了|不约了"
    r"|(?:票|硬座|硬卧|卧铺|座位)(?:都|也|给|全|已经)?退了|退了票|撕了|不申请了|不报了|不交了"
    r"|\b(?:got|had) (?:the|my|our) (?:ticket|flight|booking|fare)s? refunded\b|\bpulled out of\b",
    re.IGNORECASE,
)
DENIED_CHANGE = re.compile(
    r"(?:\b(?:not|never|nearly|almost|hardly|neither|nor|instead of|without|\w+n['’]t|dont|isnt|wasnt|hasnt|wont))"
    r"(?:\s+(?:been|being|be|gett?ing|gotten|got|get|going|to|actually|really|yet|even|officially|have|has|had|the|my"
    r"|our)){0,5}\s+\Z"
    r"|(?:没有?|未|并非|差点儿?|差一点儿?|险些|几乎|别|不要|不用|不必|无需|不需要|不会|不可能|不打算|不想"
    r"|(?<!不得)(?<!要)不)"
    r"(?:就|被|再|要|把|会|给|真的?|说要?|正式|最终|最后|临时|又|打算){0,3}(?:[把将给][^，。,]{1,8})?\Z",
    re.IGNORECASE,
)
"""Before the word of a change: it does not happen, or nearly did; but 不得不取消 happens."""
UNABLE = re.compile(r"\A不[了成]")
"""After it: 取消不了."""
HEARSAY_OF_CHANGE = re.compile(
    r"\b(?-i:[A-Z][a-z]+|somebody|someone|people|a (?:friend|colleague))\s+(?:has |have |just )?(?:said|says|thinks"
    r"|thought|claims?|claimed|believe[sd]?|heard|asks|asked|wonders|wondered|hopes|hoped|suggests|suggested|mentioned"
    r"|reckons|guesse[sd]|wants to know)\b"
    rf"|(?:[小老阿](?![师板婆公妈爸弟哥姐伴])[{HAN}]{{1,2}}?|同事|朋友|同学|室友|邻居)[^，。,；;]{{0,4}}"
    r"(?:说(?![好定明])|问|觉得|猜|认为)",
    re.IGNORECASE,
)
"""What people say, ask or believe who do not set the user's dates."""
MOVES_SOMETHING = re.compile(
    r"\s*(?:back |forward )?(?:me|us|it|them|things|everything|this|that|my|our|the)\b|\s*(?:我|咱|它|到我)",
    re.IGNORECASE,
)
"""After the word of a change: what is before it moves something, and is not what is moved."""
MOVES_USER = re.compile(r"\s*(?:back |forward )?(?:me|us)\b[^,;.]{0,12}\b(?:to|until|till)\b", re.IGNORECASE)
"""After it: the user has another day."""
LEAVE = _any(
    r"\b(?:weekend|week|day|days|morning|afternoon|time|(?:mon|tues|wednes|thurs|fri|satur|sun)day|month)s?"
    r"(?: of (?:the )?[\w ]{2,12})?(?: is| are)? off\b|\b(?:annual|parental|unpaid|study|compassionate) leave\b"
    r"|\b(?:on|booked|take|taking|got|have) (?:\w+ )?leave\b(?! (?:the|a|my|for|at)\b)",
    r"(?:休|请|放|年|调|公|婚|产|病|事)(?:了|个|几天|[一二三四五六七]天)?假|休息|调休|轮休",
)
"""Time off work, which is about no appointment."""
_TASKS = _words("prepare buy bring pack order print practise practice rehearse rent invite iron collect")
TASK = _any(rf"(?:\b(?:to|must|should|please|and|remember to|gotta|i['’]ll)\s+|\A\W*)(?P<en>{_TASKS})\b",
    r"(?P<zh>准备|买(?!了)|带上|打印|练习?|复习|排练|彩排|订蛋糕|订花|邀请|通知)")  # fmt: skip
"""Something to do for an event, which is not the event."""
PEOPLE = _any(
    r"\b(?P<en>mum|mom|mother|dad|father|wife|husband|son|daughter|sister|brother|grandma|grandpa|gran|granny"
    r"|aunt|uncle|boss|kids?"
    r"|dog|cat|rabbit|(?-i:[A-Z][a-z]+)(?=['’]s\b))",
    r"(?P<zh>妈妈?|爸爸?|老婆|老公|儿子|女儿|闺女|姐姐?|妹妹?|哥哥?|弟弟?|爷爷|奶奶|外公|外婆|姥姥|姥爷|孩子"
    r"|娃|猫|狗|老板|老伴)",
)
COMPANY = _any(
    r"\bwith (?:my |our |the )?(?P<en>(?-i:[A-Z][\w’'-]*))",
    rf"(?<![温暖缓总求饱])[和跟与同](?P<zh>[{HAN}]{{1,4}}?)(?:一起)?(?:的|(?=(?:聚|吃|约|见|开|看|去|喝|打|爬|面|会|通)))",
)
"""With whom an event takes place."""
QUALIFIER_AFTER = _any(
    r"\A(?:s|\w*(?:ing|ist|er))?\s+(?:appointment\s+|party\s+|date\s+)?(?:to|for|at|from|in|with|about|of)\s+"
    r"(?:the\s+|my\s+|our\s+|an?\s+)?(?P<en>[^\W\d][\w’'-]*)"
)
"""After the word for an event: where to, with whom or about what it is."""
QUALIFIER_BEFORE = _any(
    r"(?P<en>[^\W\d][\w’'-]*)\s+\Z",
    rf"(?:去|到|飞|回|往)?(?P<zh>[{HAN}]{{2,6}}?)(?:那[场个次趟]|这[场个次趟])?的?\Z",
)
"""Before it: of what kind it is."""
PLAIN_WORDS = frozenset(
    _words("""
    have having had book booked attend attending schedule scheduled plan planned cancel canceling cancelling
    skip missed miss
    take taking do doing see seeing get getting see gave give make making big important next weekly monthly same
    yearly annual final
    first second last whole entire long short quick early late official online remote virtual little small nice
    great
    unfortunately sadly luckily well okay ok sorry dear hi hey yes no any some every each other another own all
    both as about
    than what when where how why if then so too very upcoming planned good old rest fyi update today's
    tomorrow's tonight's
    person town house home office place work morning afternoon evening everyone everybody everything nothing
    something anybody
    anyone them him her us you me it
    公司 部门 全家 家里 家人 大家 我们 咱们 他们 你们 自己 这次 那次 本次 原来 原定 本来 约好 约了 定好 说好
    安排 之前 上次
    重要 正式 线上 线下 早上 中午 下午 晚上 今晚 明晚 周末 全部 所有 那天 当天 可惜 很遗憾 不好意思 通知 更新
    因为 结果 后来
    刚刚 突然 临时 已经 最后 估计 参加 打算 准备
    """).split("|")
)
"""Words beside the word for an event that do not say which one it is."""
WEAK_WORDS = frozenset(
    _words("""
    appointment appt slot session reservation booking event deadline due moved shifted pushed postponed rescheduled
    delayed changed cancelled canceled called off now instead new date time got has been have is was be the a an my our
    your user i we it its to on at in of for from by with and so but back forward until till week day month year morning
    afternoon evening noon today tomorrow tonight next this last monday tuesday wednesday thursday friday saturday
    sunday january february march april may june july august september october november december jan feb mar apr jun jul
    aug sep sept oct nov dec out up down again just please remind me need needs must rang said says they he she them us
    go going will can half past am pm after all anymore not no longer happening through put brought finally actually
    really still also same there here that which who would could should because more want wants
    改 到 了 的 我 用户 是 在 取消 推迟 提前 延期 改期 挪到 宽限 时间 日期 预约 约 号 月 日 周 上午 下午
    晚上 点 又 也 就 都 不 去 要 把 被 给 说 那边 那个 这个 下 上 改成 改为 改到 提醒 记得 明天 后天 今天 星期
    礼拜 年 天 一 二 三 四 五 六 七 八 九 十 两 两点 个 有 和 跟 没 还 元 块 钱 再 才 叫 让
    周一 周二 周三 周四 周五 周六 周日 打电话 电话 好 那样 还是
    """).split("|")
)
"""Words that say nothing of which event is meant."""
PROPER_NAME = re.compile(
    rf"(?<=[a-z,&] )(?<![Tt]he )(?<![Mm]y )(?<![Oo]ur )[A-Z][a-z’'-]+"
    rf"|[老小阿](?![时区学票组号姨])[{HAN}](?=[那的家来说跟和给找帮约改\d]|\Z)"
    rf"|[{HAN}](?:医生|大夫|老师|律师|师傅|教练|经理)"
)
"""A name within a sentence, where a capital does not only begin it."""
SCHEDULING_WORDS = frozenset(
    _words("""
    fit squeeze see available free offer offered ring call text email emailed earlier later suit suits manage make come
    confirm confirmed book booked rebook arrange arranged agreed 有空 方便 可以 能 约 安排 来 行
    """).split("|")
)
"""Words of making an appointment, which do not say of what."""
