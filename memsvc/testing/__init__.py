"""The contracts of the ports as pytest classes, for our backends and for anybody's.

Subclass a contract, give it its fixture, and run pytest:

    class TestMyIndex(VectorIndexContract):
        @pytest.fixture
        def index(self, tmp_path: Path) -> Iterator[VectorIndex]: ...
"""
