"""The words by which statements of Chinese and English are told apart: one list of patterns for each reason."""

from __future__ import annotations

import re


def _any_of(*parts: str, flags: int = re.IGNORECASE) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{part})" for part in parts), flags)


_ADVERBS = r"(?:(?:really|just|also|still|always|usually|generally|mostly|never|strongly|absolutely|actually|much|rather|honestly|personally|do|would|only|now|recently|both)\s+){0,3}"
_LIKE = r"(?:prefer|like|love|hate|dislike|enjoy|adore|detest|loathe|favou?r|avoid|appreciate|don'?t like|do not like|don'?t enjoy|don'?t eat|don'?t drink|don'?t want|can'?t stand|cannot stand|can'?t bear)"
_KIN = r"(?:wife|husband|partner|girlfriend|boyfriend|fianc[eé]e?|son|daughter|kids?|child(?:ren)?|baby|brother|sister|mother|father|mom|mum|dad|parents?|grand\w+|uncle|aunt|cousin|nephew|niece|family|dog|cat|puppy|kitten|pet)"
_ZH_KIN = "(?:老婆|妻子|太太|老公|丈夫|先生|爱人|对象|女朋友|男朋友|女友|男友|儿子|女儿|孩子|宝宝|哥哥?|姐姐?|弟弟?|妹妹?|妈妈?|爸爸?|母亲|父亲|父母|爷爷|奶奶|外公|外婆|姥姥|姥爷|家人|叔叔|阿姨|舅舅|姑姑|猫|狗)"
_TONGUES = r"(?:english|chinese|mandarin|cantonese|japanese|french|german|spanish|portuguese|russian|korean|italian|dutch|arabic|hindi)"

CODE = _any_of(
    r"^\s*```", r"Traceback \(most recent call last\)", r"^\s*(?:def|class|import|from|public|private|func|fn|const|let|var)\s[^.!?。]*[({=:;]",
    r"^\s*(?:npm|pip|yarn|cargo|error|warn(?:ing)?|info|debug|fatal)\s*(?:ERR!|:|\])", r"^\s*[$>#]\s+\S", r"^\s*[{[<].*[}\]>]\s*$",
    r"^\s*at \S+\(.*:\d+\)", r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d", r"\b(?:errno|segfault|core dumped|exit code|stack trace)\b.*\d",
    r"^\s*SELECT\b.*\bFROM\b", r"^\s*return\s.*;",
)  # fmt: skip
"""Program code, logs, data."""

FORGET = _any_of(
    r"(?:don'?t|do not|no need to|never)\s+(?:you\s+)?(?:remember|save|store|memori[sz]e|record|write down|note)\b",
    r"forget (?:what|that|about|it|this|everything)", "(?:不要|别|不用|不必|无需)(?:去)?(?:记住?|记录|保存|存)(?!了?错)", "当我没说", "忘(?:了|掉)(?:刚才|这|吧|它)",
)  # fmt: skip
"""The wish that something be not remembered."""

ASKED = _any_of(
    r"^(?:so |and |also |ok(?:ay)?,? |now )?(?:please |pls |kindly )?(?:remember|memori[sz]e|note(?: down)?|keep in mind|bear in mind|make a note|take note|write down|save)\b(?! to ask)",
    r"\b(?:you should|you must|i want you to|i'?d like you to|can you|could you) (?:always )?(?:remember|keep in mind|note)\b", r"\bfor (?:the record|future reference|your information)\b", r"^fyi\b",
    r"\bdon'?t forget (?:that|i|my|we|our|the)\b", "^(?:好的?，)?(?:请|麻烦|帮我|你)?(?:记住|记一下|记下|牢记|记得|备注|注意|谨记)", "(?:你|请)要?(?:记住|记得|牢记)", "(?:帮我|请)(?:记|备注)", "供(?:你)?(?:以后)?参考", "^提醒一下",
)  # fmt: skip
"""The wish that something be remembered."""

SMALL_TALK = re.compile(
    r"(?:\W*(?:ok(?:ay)?|k|yes|yep|yeah|yup|no|nope|sure|thanks?(?: you)?(?: so much| very much| a lot| again)?|thx|ty|cheers|great|good|nice|cool|perfect|awesome|excellent|wonderful|fine|alright|all right|right"
    r"|hi|hello|hey|there|good (?:morning|afternoon|evening|night)|bye|goodbye|see you(?: later| soon| tomorrow)?|later|please|please do|got it|understood|i see(?: what you mean)?|makes sense|sounds good|looks good|go ahead|never ?mind|no problem"
    r"|np|you'?re welcome|welcome|lol|haha+|hmm+|wow|oh|ah|um|well|sorry|my bad|oops|done|exactly|agreed|correct|true|of course|absolutely|definitely|that works|works for me|very helpful|not that one|let me think|well done|good job|have a (?:nice|good|great) \w+|how are you|what'?s up|man|everyone|again|then"
    r"|好的?|好吧|好呀|好啊|好滴|行|行吧|可以了?|没问题|没事|没关系|谢谢(?:你|您|啦|了)?|多谢|感谢|辛苦了?|你好|您好|嗨|哈+|哈喽|早|早上好|早安|中午好|下午好|晚上好|晚安|再见|拜拜|回头见|明天见|嗯+|哦+|噢|啊|呃|额|哎|唉|对|对的|是的?|是啊|不是|不|不用了?|算了|明白了?|我明白(?:了|你的意思了?)?|懂了|知道了|收到|了解|太好了|太棒了|真棒|不错|厉害|完美|牛|赞|就这样吧?|那就这样|继续|让我想想|我想想|辛苦|请|吧|没错|当然|同意|不是这个|不好意思|抱歉|对不起|挺有意思的?|有意思|有道理|加油)\W*)+",
    re.IGNORECASE,
)  # fmt: skip
"""Greetings, thanks, assent: to be matched whole."""

TAG_QUESTION = re.compile(
    r"[,，]?\s*(?:ok(?:ay)?|all ?right|right|got it|you know|understood|please|isn'?t it|don'?t you think|if you ask me|好吗|好不好|可以吗|行吗|明白吗|懂吗|知道吗|对吧|对吗|是吧|好吧)\s*[?？!！.。]*\s*$",
    re.IGNORECASE,
)
"""A question that only asks for assent to what was stated before it."""

QUESTION = _any_of(
    r"[?？]\s*[\"'”’)）]*\s*$",
    r"^(?:(?:so|and|but|also|ok(?:ay)?|well|hey|hi|now|then|or),?\s+)*(?:what|which|who|whom|whose|where|when(?! i\b| you\b| we\b| writing| the)|why|how)\b(?!ever)(?! i\b.*\bis\b)",
    r"^(?:(?:so|and|but|also|ok(?:ay)?|well|hey|then|or),?\s+)*(?:can|could|would|will|shall|should|do|does|did|is|are|was|were|has|have|had|may|might|am)\s+(?:i|you|we|they|he|she|it|there|this|that|the|my|your|our|these|those|any\w*|some\w*)\b",
    r"^i (?:was|am|'m) wondering", r"^i'?d (?:like|love) to know", r"^i (?:want|need|wanted) to (?:know|ask|understand)", r"^any (?:idea|chance|thoughts|way)\b", r"^(?:tell|show) me (?:about|how|what|why|where|which)",
    "(?:吗|么|呢)[?？。！~\\s]*$", "^(?:请问|想问|问一下|我是?想(?:问|知道|了解)|想知道|想了解)", "(?:什么|怎么|怎样|如何|为什么|为何|哪(?:个|里|儿|些|种|一)|多少|几(?:个|点|次|时)|谁|是否|是不是|能不能|可不可以|有没有|要不要|会不会|好不好|行不行|该不该)[^，。！]{0,12}$",
)  # fmt: skip
"""What asks. Words of asking in the middle of a longer statement do not make it a question."""

COMMAND = _any_of(
    r"^(?:(?:so|and|but|also|ok(?:ay)?|well|hey|now|then|great|yes|first|next|no|wait|sorry),?\s+)*(?:please\s+|pls\s+|just\s+|kindly\s+)*(?:fix|run|write|create|show|open|close|explain|translate|summari[sz]e|refactor|add|remove|delete|update|check|make|generate|list|find|help|give|tell|try|do|redo|go|move|rename|change|replace|rewrite|implement|build|test|debug|install|print|calculate|compute|compare|convert|continue|stop|start|restart|look|read|search|fetch|get|set|put|send|draft|describe|suggest|recommend|plan|sort|format|analy[sz]e|review|merge|commit|push|deploy|rebase|wait|repeat|undo|revert|ignore|skip|pick|choose|shorten|simplify|improve|optimi[sz]e|turn|take|keep going|apply|use this|copy|paste|export|import|clean|proofread|correct|elaborate|clarify|define|draw|design|answer the|count|imagine|pretend|act|think|ask|let me (?:see|know|think|try)|let'?s(?! go with| use| stick))\b",
    r"\b(?:i'?d like|i want|i need|i would like) you to\b", r"^(?:can|could|would|will) you\b",
    "^(?:那|好，?|好的，?|现在|接着|然后|先|再|请|麻烦|帮忙|你)*(?:帮我|帮忙|请(?!记|注意)|麻烦|给我(?!.*(?:每次|总是|一律|都要))|替我|写(?:一|个|段|首|篇|份|出)|生成|打开|运行|执行|看看|看一下|修复|修一下|修改|改(?:一下|成|为)|翻译|总结|概括|解释|说明一下|继续|重构|重写|优化|加(?:一|个|上)|添加|删(?:掉|除)|去掉|换(?:个|成|一)|查(?:一下|找|看)?|列(?:出|一下)|画|讲(?:个|讲|一)|推荐|比较|计算|算一下|试试|试一下|再(?:跑|试|来|写|改|检查)|停|重启|检查|分析|对比|整理|提交一下|合并|部署一下|安装|下载|搜索|找(?:一下|出|个)|告诉我|说说|想一想|设计一?[个下])(?!请求|之?后|的|时候?|需要|已|了)",
    "^用[^，。]{1,12}(?:总结|概括|解释|翻译|写(?!代码)|说|描述|回答(?:下面|这)|画)", "我(?:们)?想(?:让|请|要)你", "^在[^，。]{1,20}(?:加|添加|插入|写|画)(?:一|个|上|入)?", "(?:照这样|同样地?|也)(?:改|做|来)一?(?:下|遍|次)?[。！]?$", "^把(?!.*(?:以后|每次|总是|一律))", "^让我们|^我们(?:继续|开始|来|试)", "^.{0,8}再(?:大|小|长|短|快|慢|多|少|简单|详细)一?点",
)  # fmt: skip
"""What asks for something to be done now."""

LASTING = _any_of(
    r"\b(?:always|never|from now on|in (?:the )?future|going forward|every time|each time|whenever|at all times|by default|any ?more|henceforth|must not|no exceptions?)\b",
    r"\bwhen(?:ever)? (?:i|you|we|writing|answering|showing)\b.*,", "(?:^|[，。,])(?:请)?(?:以后|从今以后|今后)|以后(?:都|请|别|不|一律|要|就|必须)|一律|每次|总是|永远|始终|务必|任何时候|一直|凡是|绝对不|绝不|从不|必须|禁止|默认|都要|都得|不得",
)  # fmt: skip
"""Words that make a wish a rule."""

MANNER = _any_of(
    r"\b(?:answer|reply|respond|speak|talk|write|communicate)s?\b[^.]{0,30}\b(?:in|to me|brief|short|concise)", rf"\b(?:answer|reply|respond|speak|talk) (?:\w+ ){{0,2}}in {_TONGUES}\b",
    r"\b(?:don'?t|do not|stop|avoid|no|never|without)\b[^.]{0,40}\b(?:emojis?|apologi\w+|jargon|small talk|bullet points?|markdown|filler|in (?:your|my|the) (?:repl(?:y|ies)|answers?|responses?|code|comments?))",
    r"\bcall me (?!back|later|when|tomorrow|if|on|at)\w+", r"\b(?:address|refer to) me (?:as|by|with)\b", r"\byour (?:answers?|repl(?:y|ies)|responses?)\b[^.]{0,20}\b(?:should|must|be|short|brief)\b", r"\bkeep (?:your |the )?(?:answers?|repl(?:y|ies)|responses?|it) (?:short|brief|concise|simple)\b",
    r"\bshow me\b[^.]{0,30}\b(?:always|never)\b", "(?:用|说|讲)(?:中文|英文|英语|日语|汉语|普通话|粤语)(?:来)?(?:回答|回复|交流|跟我|和我)", "(?:叫|称呼|喊)我(?!.{0,4}(?:去|来|起床|做))", "(?:回答|回复|说话|解释)(?:里|时|的时候|中|我)?[^，。]{0,6}(?:别|不要|尽量|要|请|简短|简洁|直接)", "(?:别|不要)(?:用|加|带|发|说|跟我)[^，。]{0,10}(?:表情|套话|废话|客套|术语|敬语|感叹号)", "(?:回答|回复)[^，。]{0,8}(?:简短|简洁|直接|详细)",
)  # fmt: skip
"""How the agent is to speak to the user."""

PREFERENCE = _any_of(
    rf"\bi(?:'d| would)?\s+{_ADVERBS}{_LIKE}\b(?! to (?:know|ask|see|understand|have you|book|order)\b)(?! you to\b)(?! (?:it|this|that|the (?:idea|first|second|last|new|other))\W*$)",
    r"\bi'?d rather\b", r"\bi would rather\b", r"\bmy (?:\w+ )?(?:favou?rite|preferred|go-to|preference|pet peeve|comfort food)\b", r"\bi(?:'m| am) (?:\w+ ){0,2}(?:used to|fond of|into|keen on|a (?:big |huge )?fan of|not (?:a )?(?:\w+ )?fan of|partial to|picky about|addicted to)\b(?! (?:this|that|it) now)",
    r"\bi (?:usually|always|normally|typically|generally|tend to|often|mostly|never|rarely|only) (?:use|drink|eat|work|write|read|take|listen|watch|go|wear|buy|order|code|format|start|get up|wake|keep|put|name|avoid|travel|fly|sleep|cook|run|choose|pick)\b",
    r"\b(?:annoys|bothers|irritates|bores|suits) me\b", r"\b(?:works?|suits?|is|are|reads?) (?:me )?(?:best|better|easier|nicer|fine) for me\b", r"\b(?:doesn'?t|don'?t|does not|do not) agree with me\b", r"\bi(?:'ve| have) become (?:a |an |quite |fond)", r"\bi want (?:a|an|my|no|only)\b.*\b(?:in|with|on)\b",
    "我(?:们)?(?:自己|个人|本人|其实|真的|一直|从小)?(?:比较|更|最|很|特别|非常|还是|都|超|挺|十分|也|从来|从|一向|一般|平时|通常|平常|总是|不太|不怎么|有点|太|就)*(?:不?喜欢(?!你的?(?:回答|意思)|[。！!]?$)|偏好|偏爱|不?爱(?:吃|喝|看|听|用|玩|去|穿|读|喝|看书|好)?(?!人)|讨厌|厌恶|反感|不?习惯|倾向|钟爱|热爱|受不了|忍不了|宁愿|宁可|不吃|不喝|不看|不用|不抽|怕|迷|离不开)", "(?:我的?|本人)(?:最爱|偏好|习惯|爱好|口味|喜好|忌口)", "我(?:更|比较)?(?:愿意|乐意)(?!帮)", "我(?:平时|一般|通常|平常|总是|每天|经常|从来)(?:都|只|会|不|就)*(?:用|喝|吃|穿|看|听|写|坐|骑|走|去|在|开)",
    "比起[^，。]{1,15}，?我", "对我来说[^，。]{1,12}(?:更|最)(?:好|舒服|合适)", "优先[。！]?$", "看得惯|看不惯|吃不消|吃不惯|合我(?:的)?(?:胃口|意|口味)|不合我|迷上了|爱上了|我(?:看|听|用|读)?(?:起来)?更(?:舒服|顺手|方便)",
)  # fmt: skip
"""What the user likes, and how they are used to do things."""

PERSONAL = _any_of(
    r"\bmy (?:full |first |last |middle |nick)?name(?:'s| is)\b", r"\bi(?:'m| am) called\b", r"\bi(?:'m| am) \d{1,3}(?: years old)?\b(?! (?:minutes|percent|%))", r"\bi (?:work|worked|used to work|volunteer|teach|study|studied|major|majored) (?:as|at|for|in|with|on)\b(?! (?:it|this|that)\b)",
    r"\bi (?:live|lived|grew up|was born|was raised|moved|relocated|reside|settled) (?:in|to|on|at|near|with|from|back)?\b", r"\bi(?:'m| am) (?:originally )?(?:from|based in|living in|married|single|divorced|retired|pregnant|engaged|allergic|diabetic|left-handed|right-handed|colou?r-?blind|deaf|dyslexic|asthmatic|lactose|gluten|celiac|coeliac|vegetarian|(?:a )?vegan|pescatarian|muslim|jewish|christian|buddhist|hindu)\b",
    r"\bi(?:'m| am)(?: currently| now| also)? (?:a|an|the) (?!bit|little|lot|fan|big fan|huge fan|tad|few|idiot|person who asks|moment)[\w-]+(?: [\w-]+){0,4}\b", r"\bmy (?:birthday|birth date|anniversary|wedding|age|job|work|profession|employer|boss|manager|address|home|house|flat|apartment|phone|mobile|e-?mail|time ?zone|hometown|home town|native language|mother tongue|blood type|height|weight|shoe size|doctor\S*|dentist\S*|allerg\w+|religion|nationality|salary|car|bike|major|degree|school|university|passport|diet|hobb\w+|commute)\b.{0,40}\b(?:is|are|was|were|will be|has|have|lives?|expires?)\b",
    rf"\b(?:my|our) (?:\w+ )?{_KIN}(?:'s)?\b(?! (?:bug|code|process|node))", rf"\b(?:i|we) (?:have|had|got|own|adopted|raise|keep)(?: just)? (?:an?|one|two|three|four|\d|no|some|my)? ?(?:\w+ ){{0,2}}{_KIN}\b", r"\bi (?:speak|own|suffer from|was diagnosed|graduated|hold a|play (?:the|in)|drive a|am divorced|retired|quit my job|started a new job|changed jobs|got (?:married|promoted|engaged|divorced|a new job|a dog|a cat)|joined \w+ as)\b",
    r"\bi(?:'ve| have) (?:got )?(?:type|diabetes|asthma|arthritis|anxiety|adhd|migraines?|an? allerg\w+|high blood|low blood|insomnia|a (?:bad|weak|sore)|been (?:a|an|married|living|working|diagnosed|vegan|vegetarian))\b", r"\bmy (?:knees?|back|eyes?|heart|hands?|hearing|eyesight|shoulder|skin|stomach|teeth|hair|legs?|feet|foot|lungs?|neck)\b", r"\b(?:i'm|i am) (?:learning|training for|expecting|raising)\b", r"\bi've got diabetes\b",
    r"\bi(?:'m| am) (?:working|studying) (?:as|at|for) (?!it|this|that|the moment)", r"\b(?:my|our) (?:team|department|office) (?:at|in) [A-Z]",
    "我(?:的名字)?(?:叫|姓)(?!你|不|得)", "我(?:的)?(?:名字|姓名|生日|年龄|职业|工作|老家|家乡|籍贯|电话|手机|邮箱|邮件|地址|住址|时区|血型|身高|体重|鞋码|专业|学历|学校|单位|公司|老板|领导|车|爱好|母语|国籍|信仰|民族|星座|属相|驾照|医生|牙医)(?:号|是|在|叫|为|就|有|[:：])", "我(?:今年|已经|现在)?[0-9一二三四五六七八九十两]{1,4}岁", "我(?:现在|目前|一直|以前|之前|已经|最近|刚|刚刚|上个月|去年|今年|上周|明年|前年)*(?:住在?|家住|搬(?:到|去|家)|定居|租住|来自|出生|生于|毕业|就读|就职|任职|退休|结婚|离婚|怀孕|入职|跳槽|换工作|失业|辞职|养了?|订婚)",
    "我(?:现在|目前|以前)?在[^，。]{1,14}(?:工作|上班|读书|上学|读研|读博|当|做(?!了?(?:什么|测试|实验|重构))|任|教书|学习(?!(?:一下)))", "我(?:现在|目前|其实|也)?是(?:一[名个位]|个|名|做|搞|学|素食|色盲|左撇子|独生|程序员|老师|医生|学生|护士|[^，。]{1,12}(?:人|师|员|者|生|手|家|主义者))(?![说想指问])", f"我(?:的|们)?{_ZH_KIN}", "我对[^，。]{1,12}过敏", "我(?:们)?(?:家)?(?:有|生了|养了|领养了)[一二两三四0-9]*(?:个|只|条|位)?(?:孩子|女儿|儿子|哥哥|弟弟|姐姐|妹妹|猫|狗|宝宝|双胞胎)", "我(?:会说|会讲|会弹|会拉|学过|得过|患有|有[^，。]{0,6}(?:病|症|过敏|糖尿病|高血压|色盲|近视))", "我(?:老家|家)在", "我(?:不能吃|吃素|戒烟|戒酒|左撇子|色盲)", "我换工作了", "我(?:正)?在学(?!习?一下)", "我(?:的)?(?:膝盖|腰|眼睛|心脏|听力|视力|胃|牙|背|腿|脚|手|皮肤|血压|血糖|睡眠)",
)  # fmt: skip
"""What the user tells of themselves."""

PERSONAL_LIFE = _any_of(
    rf"\b{_KIN}\b", r"\b(?:birthday|wedding|holiday|vacation|trip|travel\w*|marathon|hik\w+|book|novel|reading|finished reading|film|concert|gym|yoga|doctor|dentist|hospital|school|class|party|dinner|lunch|date night|restaurant|museum|beach|festival|garden|church|recipe|guitar|piano|swim\w*|football|tennis|haircut|flat|apartment|groceries|rent|passport|visa)\b",
    _ZH_KIN, "生日|婚礼|那趟|读完|看完|小说|《|旅行|旅游|度假|马拉松|爬山|徒步|演唱会|健身|瑜伽|医院|看病|体检|学校|课|聚会|吃饭|餐厅|约会|博物馆|海边|电影|菜谱|吉他|钢琴|游泳|足球|网球|理发|房租|护照|签证|买菜|牙医|疫苗|家长会",
)  # fmt: skip
"""What belongs to the life of a person and not to a project."""

PROJECT = _any_of(
    r"\b(?:this|the|our|that|my) (?:project|repo(?:sitory)?|code ?base|code|app(?:lication)?|service|product|monorepo|branch|release|sprint|module|package|library|backend|frontend|team|pipeline|cluster|server|database|schema|workspace)\b", r"(?<![\w@])(?:[\w.-]+/)+[\w.*-]*\.?\w*(?![\w/])(?<!and/or)(?<!n/a)", r"\b[\w-]+\.(?:py|go|rs|ts|tsx|js|jsx|java|kt|c|h|cc|cpp|cs|rb|php|swift|scala|sql|sh|yaml|yml|toml|json|md|proto|tf|lock|ini|cfg|env|xml|html|css|vue|ipynb|csv|txt|log)\b", r"\b(?:Makefile|Dockerfile|package\.json|go\.mod|Cargo\.toml|README|docker-compose)\b",
    r"\b(?:staging|production|prod|CI|sprint|milestone|backlog|endpoint|API gateway|webhook|migration|deploy\w*|release|onboarding|billing|billing module|vendor|customers?|clients?|invoices?)\b", r"\bwe (?:use|run|host|deploy|store|keep|ship|log|support|test|call|name|build|track|release|have|need|only|always|never)\b", r"\bour\b",
    "(?:这个?|本|该|咱们?|我们(?:的|这个)?)(?:项目|仓库|代码库?|工程|服务|系统|产品|应用|模块|分支|版本|团队|后端|前端|公司|组|平台|数据库|接口|流程|部门|架构|网站)", "(?:测试|生产|预发|线上|开发|演示|正式)(?:环境|服务器|库|账号|地址|版)?|上线|发布|部署|模块|网关|接口|脚本|配置|入口|迁移|仓库|分支|客户|合同|用户表|订单|发票|埋点|需求|排期|迭代",
    r"\b(?:port|host) \d{2,5}\b", r"\b\d{1,3}(?:\.\d{1,3}){3}\b", r"https?://\S+", "端口",
)  # fmt: skip
"""Signs of a project: paths, file names, and words of work that is shared."""

EXPLICIT_PROJECT = _any_of(
    r"\b(?:this|our) (?:project|repo(?:sitory)?|code ?base|monorepo|branch|package|module|service|app|team)\b", r"(?<![\w@:/])(?:[\w.-]+/)+[\w.*-]*", r"\b[\w-]+\.(?:py|go|rs|ts|tsx|js|java|sql|sh|yaml|yml|toml|json|proto|md)\b", "(?:这个?|本|该|我们的?)(?:项目|仓库|代码库|工程|分支|模块|服务)", r"\bmake \w+\b(?= before)",
)  # fmt: skip
"""Signs strong enough to tie a preference to a project."""

DECISION = _any_of(
    r"\b(?:we|i|they|the team|everyone|management)(?:'ve| have| had)?(?: \w+)? (?:decided|agreed|chose|chosen|opted|settled|resolved|voted|concluded|picked|committed)\b", r"\b(?:we(?:'re| are)|i'm|i am) (?:going with|switching to|moving to|dropping|sticking with|adopting|replacing|standardi[sz]ing on)\b", r"\blet'?s (?:go with|use|stick with|settle on|adopt|standardi[sz]e on)\b", r"^(?:final )?(?:decision|adr|resolved|conclusion)\b[^.]{0,15}[:：-]",
    r"\bwe(?:'ll| will| won'?t| will not) (?:\w+ )?(?:use|adopt|support|keep|go|store|drop|move|stay|build|host|migrate|switch|replace|rely|ship|maintain|offer|write)\b", r"\bit (?:was|has been|is) decided\b", r"\b(?:committee|board|management|team|cto|architects?|leadership|boss|client) (?:has |have )?(?:approved|rejected|signed off|chosen|chose|picked|decided|agreed)\b", r"\b(?:the )?(?:decision|choice) (?:is|was|has been)\b", r"\bwe no longer (?:support|use)\b",
    "(?:我们|大家|团队|最终|最后|已经?|经讨论|会上|一致|我|公司|组里)[^，。]{0,8}(?:决定|决议)", "^决定", "(?:最终|最后|统一|正式|全面)(?:选择|选用|选定|采用|使用|用|改用|改成|换成|确定)", "一致(?:同意|认为|决定)", "敲定|拍板|选型|定了|定下来|定为|定稿|达成一致|结论是", "(?:确定|决定|选择)(?:使?用|采用|选|改|不|了)", "(?:我们|以后|下个版本|今后)?(?:不再|放弃)(?:支持|使用|用|维护)", "我们(?:选(?:择|用|了)|采用|改用|换成)",
)  # fmt: skip
"""A choice that was made."""

TASK = _any_of(
    r"\bremind (?:me|us)\b", r"\b(?:todo|to-do|action item)\b", r"\b(?:i|we)(?: still)?(?: really)? (?:need|have|got|must|should|ought|'ve got|plan|intend|promised) (?:to )?[^.]{3,80}\b(?:by|before|until|till|on|next|this|tomorrow|tonight|today|at|in)\b (?:the )?(?:end|mon|tue|wed|thu|fri|sat|sun|next|week|month|noon|\d|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|weekend|morning|evening|quarter|year)?",
    r"\b(?:is|are|was|has to be|have to be|must be|needs to be|should be) (?:due|done|finished|ready|submitted|delivered|completed)\b[^.]{0,10}\b(?:by|before|until|on|next|at|tomorrow)\b", r"\b(?:must|has to|have to|needs? to|should) (?:be )?\w+[^.]{0,40}\b(?:by|before|until|every|no later than)\b", r"\bby (?:monday|tuesday|wednesday|thursday|friday|saturday|sunday|noon|tomorrow|tonight|next|the end|january|february|march|april|may|june|july|august|september|october|november|december)\b.*\b(?:i|we) (?:owe|need|must|have|should|want|will)\b", r"\bdon'?t (?:let me )?forget to\b", r"\bdeadline\b.{0,30}\b(?:is|on|by|moved)\b", r"\b(?:i|we) still (?:have|need) to\b", r"\bbefore (?:friday|monday|tuesday|wednesday|thursday|saturday|sunday|the release|the end)\b.*\b(?:must|need|have)\b",
    "提醒我|别让我忘|别忘了(?:要|去|给|在)?|待办|截止|到期前", "(?:今天|明天|后天|周[一二三四五六日天末]|星期[一二三四五六日天]|下周|下个?月|月底|年底|周末|[0-9一二三四五六七八九十]+[月号日点])[^，。]{0,8}(?:之?前|以前|内)[^。]{0,20}(?:要|得|必须|需要|完成|交|做完|搞定)", "(?:我|我们|还)(?:们)?(?:还)?(?:得|要|需要|必须|打算|计划)[^。]{1,25}(?:之前|以前|完(?:成)?[。！]?$)", "(?:明天|后天|下周|下个?月|周[一二三四五六日天末])[^，。]{0,6}(?:要|得|需要|记得|必须|还得)", "每(?:个|隔)?[^，。]{1,6}(?:要|得|必须|需要)[^，。]{1,10}一?次", "(?:先)?(?:记|算)(?:在|到)?我(?:的)?(?:头上|名下|账上)",
)  # fmt: skip
"""Something to be done, by a time or some day."""

EXPERIENCE = _any_of(
    r"\b(?:i|we)(?:'ve| have)?(?: \w+)? (?:fixed|tried|went|visited|finished|learn(?:ed|t)|discovered|spent|built|wrote|deployed|migrated|debugged|met|bought|ran into|ran|solved|found out|found that|found (?:the|a)|read|watched|travel+ed|started|launched|shipped|released|upgraded|broke|lost|won|attended|climbed|cooked|painted|flew|drove|switched|rewrote|refactored|tracked down|figured out|struggled|noticed|got (?:lost|stuck|hurt|sick)|reduced|replaced|measured|removed|sold|joined|completed|passed|failed|took|made|had (?:a|an|to|trouble)|saw|hiked|caught)\b(?! you)(?! what)",
    r"\b(?:yesterday|last (?:week|month|year|night|summer|winter|spring|autumn|fall|weekend|monday|tuesday|wednesday|thursday|friday|saturday|sunday|time)|the other day|a (?:week|month|year|few \w+) ago|\w+ (?:days|weeks|months|years) ago|this morning)\b", r"\bthe hard way\b", r"\bit turned out\b", r"\bit took (?:us|me)\b", r"\bmade (?:the|it|them|our) .*\b(?:pass|work|fail|faster|slower|crash)\b", r"\bwent (?:really |very |quite )?(?:well|badly|wrong|smoothly|fine)\b", r"\b(?:root cause|post-?mortem)\b.{0,20}\bwas\b",
    "(?:我|我们|咱们)[^。？]{0,25}(?:修(?:复|好)|解决|完成|上线|部署|参加|学(?:会|到)|踩|发现|遇到|试过|试了|看完|读完|跑完|写完|做完|买了|升职|去了?|重构|优化|排查|定位|花了|回来|爬了|搭了?|迁移|升级|删了|弄丢|考(?:过|上)|体验|经历|旅行|旅游|见了|聊了|搞定|换成了?)[^。？]{0,30}(?:了|过|才|到)", "(?:昨天|前天|上周|上个月|去年|前年|今早|今天(?:上午|下午|早上)|上周末|周[一二三四五六日天末]|前几天|那次|这次|上次)[^。？]{0,30}(?:了|过|失败|成功|才)", "踩(?:了|过)?坑|教训|复盘|吃了.{0,4}亏|浪费了?|很顺利|搞砸|那(?:趟|一趟|次)[^。]{0,16}(?:旅行|旅程|经历|行程)", "之后[^。]{0,20}(?:就)?(?:通过|好|成功|正常|恢复|解决|消失)了",
)  # fmt: skip
"""Something that happened or was done."""

OPINION = _any_of(
    r"\bi (?:\w+ )?(?:think|believe|feel|reckon|suspect|consider|guess)(?: that)?\b(?! (?:so|not|i'?ll|we(?:'re| are| can| should| could)|you|there(?:'s| is)|it (?:works|is|'s)|that(?:'s| is)|this|about)\b)", r"\b(?:in my (?:opinion|view|experience)|imo|imho|if you ask me|to my mind|as far as i'?m concerned)\b", r"\bi find \w+(?: \w+){0,3} (?:too|very|far too|rather|quite|really|much|so|more|less|over\w+|confusing|boring|great|hard|easy|ugly|elegant)\b", r"\b(?:is|are) (?:overrated|underrated|overkill|over-engineered|a waste of time|the best thing|far better|much better|way better|worth it)\b", r"^to me,", r"\bi'?m convinced\b", r"\b(?:pays? off|more trouble than|not worth)\b", r"\bi (?:agree|disagree) (?:that|with) \w+ \w+ \w+",
    "(?:我|个人|本人)(?:一直|真的|还是|其实)?(?:觉得|认为|感觉|相信|以为)(?!你)", "在我看来|依我看|要我说|我的看法|我的观点|我看[^一看]", "我(?:一直|向来)?(?:是|都)?这(?:么|样)(?:认为|看|想|觉得)", "(?:长远来看|说实话|总的来说|老实说)[^。]{0,20}(?:是|更|太|很|不)", "(?:被(?:高估|低估)了|太(?:复杂|啰嗦|麻烦|难用|贵|慢)了)",
)  # fmt: skip
"""A judgement."""

PASSING = _any_of(
    r"^(?:and |but |so |oh |sorry,? |ok(?:ay)? |well,? )*i(?:'m| am) (?:\w+ ){0,2}(?:back|here|tired|hungry|busy|bored|ready|done|sorry|fine|good|ok(?:ay)?|happy|confused|lost|stuck|not sure|unsure|sure|getting|seeing|trying|looking|going to|about to|working on|running|just|wondering|asking|talking|at (?:home|work|the)|on (?:the|my|a)|in a|off|leaving|kidding|thinking|curious|waiting|late|glad|afraid)\b", r"^(?:it|that|this|they|these|those|he|she|the (?:build|test|tests|page|server|script|command|second|first|last|other)(?: one)?)(?:'s|'re)? (?:\w+ )?(?:works?|doesn'?t|still|is|isn'?t|was|looks|seems|fails?|failed|broke|crashed|are|not|raining|exactly|wrong|better|red|green)\b(?!.{40})",
    r"^(?:looks|seems|sounds|feels) (?:like|as|good)", r"^(?:wait|one moment|one sec|hold on|just a|give me a|hang on)\b", r"\b(?:i don'?t know|i'?m not sure|not sure|no idea|i guess so|i have no)\b", r"^(?:maybe|perhaps|what if|suppose|imagine|if i were|if you were|let me)\b", r"\b(?:right now|at the moment|for the moment|just now)\b", r"^i (?:see|mean|meant|understand|know|guess|hope|wish|can'?t|cannot|tried that|forgot|said|did|didn'?t|don'?t (?:know|think|understand|see)|think (?:so|that'?s|it'?s|there'?s|i'?ll|we (?:can|should|could)|you))\b", r"^(?:so|and|but|then) (?:what|it|that|this|now)\b", r"^(?:i )?(?:really )?(?:like|love) (?:it|this|that)\W*$",
    "^(?:我)?(?:现在|今天|刚才|刚刚|目前|正在|这会儿|马上|等一?下|等等|稍等)[^，。]{0,6}(?:有点|很|好|在|不|没|要|想|去|正|外面|下雨|头|累|困|饿|忙|，|。|$)", "^我(?:就|只是|回来|到了|先|去|饿|累|困|不知道|不太?(?:确定|清楚|明白|懂)|没(?:看懂|明白|听懂)|也不|说的|的意思|是(?:说|想|指|问))", "^(?:还是|好像|似乎|看起来|看来|貌似|也许|可能|大概|要是|如果|假如|万一|比如|或者)", "^(?:不太?|没)(?:确定|清楚|懂|明白|知道)", "^(?:一|刚)[^，。]{1,6}就(?:报错|出错|崩|挂|失败|卡)", "^(?:构建|编译|测试|页面|程序|服务)?又?(?:报错|出错|挂|崩|红|失败|卡住?)了?[。！]?$|^构建又", "^(?:第[一二三四五]个|这个|那个|这正?是|这样|那|它)[^，]{0,14}[。！]?$", "我(?:在|正)(?:接电话|开会|路上|外面|吃饭|忙|看|等|试|想)", "^我想(?!.{0,8}(?:买|学|去).{4})",
)  # fmt: skip
"""A state of the moment, a doubt, a remark on what lies before both."""

HYPOTHESIS = _any_of(r"^(?:if|suppose|imagine|what if|maybe|perhaps|say)\b", "^(?:如果|假如|要是|假设|万一|也许|或许|可能|比如)")
"""What is only thought of."""

TECHNOLOGY = _any_of(
    r"(?<![\w/.-])(?:Go|Golang|Python|Java|JavaScript|TypeScript|Rust|C\+\+|C#|Ruby|PHP|Swift|Kotlin|Scala|Haskell|Elixir|Bash|SQL|PostgreSQL|Postgres|MySQL|SQLite|MongoDB|Redis|Kafka|RabbitMQ|Docker|Kubernetes|k8s|Helm|Terraform|Ansible|Linux|Unix|Git|GitHub|HTTP[S/]?\d?|TCP|UDP|TLS|DNS|REST|gRPC|GraphQL|JSON|YAML|XML|HTML|CSS|React|Vue|Angular|Node(?:\.js)?|Django|Flask|FastAPI|Spring|Rails|NumPy|pandas|PyTorch|TensorFlow|Elasticsearch|Nginx|AWS|Azure|GCP|OAuth|JWT|CORS|ORM|API|GIL|regex|UTF-8|Unicode|asyncio|WebSocket|LLM|BM25|HNSW|vim|emacs|ext4|SSH|POSIX|CPU|GPU|SIMD|WASM|protobuf|Makefile|CMake|LaTeX|Markdown|Excel|Prometheus|Grafana|OpenTelemetry)(?![\w-])",
    r"\b(?:mutex|deadlock|race condition|garbage collect\w+|hash ?map|binary search|big-?o|closure|coroutine|thread|functional programming|object-oriented|unit tests?|code reviews?|design pattern|dependency injection|microservices?|foreign key|primary key|idempoten\w+|eventual consistency|remote work)\b",
    "函数式|面向对象|微服务|单元测试|代码评审|设计模式|死锁|竞态|垃圾回收|哈希|索引|线程|协程|闭包|幂等|主键|外键|最终一致|缓存穿透|正则|编译器|二分|递归|远程办公|依赖注入|借用检查",
)  # fmt: skip
"""Names of technology that is the same everywhere."""

GENERAL = _any_of(
    r"\b(?:is|are|means?|should|must|can(?:not|'t)?|does(?:n't| not)?|do(?:n't| not)?|allows?|requires?|forbids?|prevents?|returns?|rewrites?|supports?|uses?|needs?|has|have|makes?|provides?|guarantees?|runs?|stores?|blocks?|takes?|works?|defaults?|will|locks?|copies|shares?|guarantees?|makes?|encodes?)\b", r"\b[\w-]{3,}(?<!thi)(?<!alway)(?<!'s)s\b", "是|会|应该?|需要|最佳实践|默认|不能|只能|支持|用于|允许|表示|意味着|可以|必须|要|一般|通常|不会|有|没有|返回|保证|占|等于|属于|比|能",
)  # fmt: skip
"""What states how things are."""

INFORMATIVE = _any_of(
    r"(?<=[^.!?] )(?!I\b)[A-Z][A-Za-z]*\b", r"\d", r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|dozen|hundred|thousand|million)\b.*\b(?:hours?|days?|weeks?|months?|years?|people|euros?|dollars?|times|reviewers?)\b",
    r"\b(?:every|each|nightly|daily|weekly|monthly|yearly|always|only|never|mandatory|forbidden|allowed|responsible)\b", "[一二三四五六七八九十百千万两]+(?:个|天|月|年|号|点|岁|元|块|台|次|行|秒|分钟|小时|人|条|欧|位)", "负责|位于|叫做|名叫|地址|电话|账号|到期|过期|有效期|属于|等于|表示|生效|周[一二三四五六日]|星期|[A-Za-z]{3,}|只能|必须|统一|所有",
    flags=0,
)  # fmt: skip
"""A name, a number or a date: what makes a plain statement worth keeping."""

STATING = _any_of(
    r"\b(?:is|are|was|were|will be|has|have|had|owns?|lives?|runs?|uses?|starts?|ends?|costs?|means?|opens?|closes?|expires?|leads?|manages?|belongs?|contains?|takes?|needs?|arrives?|leaves?|works?|handles?|resets?|times? out|supports?|sits?|goes|comes|moved|changed|became|joined|left|speaks|likes|prefers|deploys?|keeps?|stores?|listens?)\b",
    r"^(?:the|our|a|an|every|each|all|both|most|two|three)\b(?: [\w-]+){1,6} [\w-]+(?:s|ed)\b",  "是|在|有|叫|为|由|用|放|从|到|负责|属于|等于|表示|保留|开始|结束|提交|生效|关闭|开放|位于|使用|采用|搬|喜欢|不吃|住|会|要|写|读|签|审核|通过|每|上报|需要|支持|运行",
)  # fmt: skip
"""A verb that says how something is."""

ECHO = _any_of(r"\byou(?:'re|r|rs)?\b", "你|您")
"""An agent that speaks of its user."""

DONE_BY_AGENT = _any_of(
    r"\bi(?:'ve| have)?(?: \w+)? (?:fixed|created|added|removed|updated|deployed|implemented|renamed|moved|migrated|installed|configured|refactored|wrote|generated|deleted|merged|resolved|found|changed|replaced|upgraded|ran)\b", r"\b(?:root cause|the (?:fix|cause|problem|issue)) (?:was|is)\b", "我?(?:已经?|刚刚?)(?:修复|创建|添加|删除|更新|部署|实现|重命名|移动|迁移|安装|配置|重构|生成|合并|解决|替换|升级|完成)", "(?:原因|问题)(?:是|在于|出在)",
)  # fmt: skip
"""Work that an agent reports as done."""
