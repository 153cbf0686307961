"""Everyday sentences whose mean vectors are used until a space has enough memories of a script."""

from __future__ import annotations

from collections.abc import Mapping

from memsvc.text.analysis import Script

NEUTRAL_SENTENCES: Mapping[Script, tuple[str, ...]] = {
    Script.LATIN: (
        "I finally finished the report and sent it to the whole team this morning.",
        "We are thinking about moving to a smaller flat closer to the river.",
        "My sister called to say that her train was two hours late.",
        "Remember to water the plants on the balcony every other day.",
        "The new coffee machine at work makes far too much noise.",
        "He has been learning the guitar for about three months now.",
        "Thanks for the photos, the garden looks wonderful in the evening light.",
        "The doctor told her to walk more and to drink less coffee.",
        "Our dog is afraid of thunder and hides under the bed.",
        "The build failed because a configuration file was missing on the server.",
        "I prefer short answers with an example at the end.",
        "They cooked a big pot of soup and invited the neighbours.",
        "The meeting was moved to the afternoon, in the room upstairs.",
        "She read the novel in two days and would like to lend it to me.",
        "Could you book a table for four near the theatre?",
        "The old bicycle needs new brakes before the summer.",
        "We lost the match, but everybody played much better than before.",
        "Please keep the monthly budget under control and note every expense.",
        "It rained all weekend, so we stayed inside and played cards.",
        "His first job was at a bakery, and he still bakes bread at home.",
        "The museum was crowded, yet the paintings were worth the wait.",
        "I am nervous about the interview and practise my answers aloud.",
        "The children built a little house out of cardboard and tape.",
        "Use the second database for tests and never touch the first one.",
    ),
    Script.HAN: (
        "今天早上我把报告写完，发给了同事。",
        "周末下雨，我们在家里看了一部老电影。",
        "妈妈打电话来，说家里的猫又胖了。",
        "他最近在学做饭，最拿手的是番茄炒蛋。",
        "会议改到下午三点，地点还是二楼的会议室。",
        "我比较喜欢简短的回答，最好附上一个例子。",
        "阳台上的花记得隔天浇一次水。",
        "地铁上人太多，我差点坐过站。",
        "她打算明年换一份离家更近的工作。",
        "服务器昨晚重启了一次，日志里没有报错。",
        "这家小店的面很好吃，就是要排很久的队。",
        "医生建议他多散步，少喝咖啡。",
        "孩子们用纸箱搭了一座小房子。",
        "这个月的开销有点大，下个月要省着点花。",
        "我们商量好了暑假去海边住几天。",
        "请把测试数据放到另一个文件夹里，不要覆盖原来的。",
        "爷爷每天早上都去公园打太极拳。",
        "那本小说我看了一半，结局应该不太好猜。",
        "比赛虽然输了，但是大家都很尽力。",
        "新来的同事很热情，帮我修好了打印机。",
        "昨晚没睡好，今天一整天都没有精神。",
        "谢谢你寄来的照片，院子里的灯真好看。",
        "她从小学钢琴，现在偶尔还会弹一弹。",
        "自行车的刹车坏了，周日得拿去修。",
    ),
}
"""24 English and 24 Chinese sentences of our own, on varied subjects."""
